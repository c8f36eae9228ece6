import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, readdir, stat, truncate, utimes } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import type { LayerRef } from "../../../src/api/wire/grant.ts";
import { systemClock } from "../../../src/base/clock.ts";
import { silentLog } from "../../../src/base/log.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import { treesBy } from "../../../src/local/csi/storage/trees.ts";
import { dropLayers } from "../../../src/local/node/layer-directories.ts";
import { sentries } from "../../setup/cell-processes.ts";
import type { RunningCell } from "../../setup/cell-rig.ts";
import { Cells } from "../../setup/cells.ts";

/** A layer on the disk of a node, with real cells that make clones of it. No checkpoint and no sandbox needs it, as far as the node knows. */
let cells: Cells;
let layer: LayerRef;
let number = 0;
const files = 3_000;
const container = { command: ["sleep", "infinity"] };

beforeAll(async () => {
  cells = await Cells.open();
  const builder = await cells.boot({ name: "builder", container });
  const write = `import os
for n in range(${files}):
  os.makedirs(f"/many/{n % 50}", exist_ok=True)
  open(f"/many/{n % 50}/{n}", "w").write(f"{n}")`;
  await cells.python(builder, write);
  const grant = await cells.writeGrant("layer");
  const request = { grant, contents: ["filesystem" as const], keepRunning: true, asLayer: true as const };
  const { manifestDigest, sizeBytes } = await cells.client.checkpoint(builder.address, request);
  layer = { checkpointId: "layer", manifestDigest, sizeBytes };
  builder.process.kill("SIGTERM");
});
afterAll(() => cells.close());

/** The directory of all namespaces' layers on a new node. */
async function newNode(): Promise<string> {
  const directory = join(cells.rig.directory, `node-${++number}`);
  await mkdir(join(directory, "test"), { recursive: true });
  return directory;
}

async function prepared(node: string) {
  const environment = { RAMET_CELL_LAYERS: join(node, "test") };
  const cell = await cells.rig.startCell({ name: `clone-${++number}`, container, start: "wait", environment });
  onTestFinished(() => {
    cell.process.kill("SIGTERM");
  });
  return { cell, restore: () => cells.restore(cell, { ...layer, contents: ["filesystem"] }) };
}

type Prepared = Awaited<ReturnType<typeof prepared>>;
const whole = async ({ cell }: Prepared) => {
  const count = `import os; print(sum(open(f"/many/{n % 50}/{n}").read() == f"{n}" for n in range(${files})))`;
  expect(await cells.python(cell, count)).toBe(`${files}`);
};

async function cloneOn(node: string): Promise<Prepared> {
  const clone = await prepared(node);
  await clone.restore();
  return clone;
}

const layerIn = (node: string) =>
  join(node, "test", `${layer.checkpointId}.${layer.manifestDigest.slice("sha256:".length)}`);

/** Makes the layer one that nothing has used for two hours. */
async function age(node: string): Promise<void> {
  const past = new Date(Date.now() - 7_200_000);
  await utimes(`${layerIn(node)}.lock`, past, past);
}

/** A stand-in for a cluster with a namespace, and without checkpoints and sandboxes. */
const client = {
  clock: systemClock,
  of: () => ({ list: () => Promise.resolve({ items: [] }) }),
  resource: () => ({ list: () => Promise.resolve({ items: [{ metadata: { name: "test" } }] }) }),
} as unknown as KubeClient;

/** Collects the layers that nothing needs. @param before called after the node has found the layer, and before it removes it */
function collect(node: string, before: () => Promise<unknown> = () => Promise.resolve()): Promise<string[]> {
  const link = cells.rig.tools["ramet-link"];
  const trees = treesBy(link, new AbortController().signal);
  let isFirst = true;
  const remove = async (path: string): Promise<void> => {
    if (isFirst) await before();
    isFirst = false;
    await trees.remove(path);
  };
  return dropLayers(node, { trees: { remove }, link, log: silentLog }, client);
}

const left = async (node: string) => (await readdir(join(node, "test"))).map((name) => name.replace(/^[^.]+\.\w+/, ""));

describe("a layer that is collected", () => {
  it("stays if a clone starts on it meanwhile, and has all files there", async () => {
    const node = await newNode();
    await whole(await cloneOn(node));
    await age(node);
    const clone = await prepared(node);
    expect(await collect(node, clone.restore)).toEqual([]);
    await whole(clone);
    expect((await left(node)).sort()).toEqual(["", ".lock"]);
  });

  it("is whole or unpacked again in clones that start at any time of its removal", async () => {
    const node = await newNode();
    await cloneOn(node);
    for (const milliseconds of [0, 15]) {
      await age(node);
      const clone = await prepared(node);
      const collected = collect(node);
      await new Promise((resolve) => setTimeout(resolve, milliseconds));
      await clone.restore();
      await collected;
      await whole(clone);
      clone.cell.process.kill("SIGTERM");
      expect((await left(node)).sort()).toEqual(["", ".lock"]);
    }
  });

  it("is unpacked again after the process that removed it was killed, and nothing is left of it", async () => {
    const node = await newNode();
    await cloneOn(node);
    await age(node);
    const link = cells.rig.tools["ramet-link"];
    const dropped = `${layerIn(node)}.dropped`;
    expect(spawnSync(link, ["layer", "--drop", layerIn(node), `${Date.now() - 60_000}`]).status).toBe(0);
    const removal = spawn(link, ["tree", "remove", dropped], { stdio: ["pipe", "ignore", "ignore"] });
    const ended = once(removal, "exit");
    const count = async () => (await readdir(dropped, { recursive: true })).length;
    const before = await count();
    while ((await count()) === before) await new Promise((resolve) => setImmediate(resolve));
    removal.kill("SIGKILL");
    await ended;
    expect(existsSync(dropped)).toBe(true);
    await whole(await cloneOn(node));
    await age(node);
    expect(await collect(node)).toEqual([layerIn(node)]);
    expect(await left(node)).toEqual([]);
  });
});

describe.runIf(process.getuid?.() === 0)("a node's directory of layers", () => {
  /** Mounts a file system for the layers of the namespace. */
  function mount(node: string, ...args: string[]): void {
    expect(spawnSync("mount", [...args, join(node, "test")], { encoding: "utf8" }).stderr).toBe("");
    onTestFinished(() => void spawnSync("umount", ["--lazy", join(node, "test")]));
  }

  it("that is full makes a clone fail with the reason, leaves nothing there, and is used again when it has room", async () => {
    const node = await newNode();
    mount(node, "-t", "tmpfs", "-o", "size=4m", "ramet-test");
    const refused = await prepared(node);
    await expect(refused.restore()).rejects.toMatchObject({
      code: "StoreFull",
      message: expect.stringContaining("no space left on device") as string,
      hint: expect.stringContaining("Free space on the node's disk") as string,
    });
    expect(await left(node)).toEqual([".lock"]);
    mount(node, "-o", "remount,size=64m");
    await whole(await cloneOn(node));
  });

  it("that is read-only makes a clone fail with the reason, unless the layer is there", async () => {
    const node = await newNode();
    mount(node, "-t", "tmpfs", "-o", "ro", "ramet-test");
    const refused = await prepared(node);
    await expect(refused.restore()).rejects.toMatchObject({
      code: "Unavailable",
      message: expect.stringContaining("read-only file system") as string,
    });
    mount(node, "-o", "remount,rw");
    await whole(await cloneOn(node));
    mount(node, "-o", "remount,ro");
    await whole(await cloneOn(node));
  });
});

it.runIf(process.getuid?.() === 0)(
  "the files of a clone are known not to be read if its disk becomes full",
  async () => {
    const contents = ["filesystem" as const];
    const container = { command: ["sleep", "infinity"] };
    const source = await cells.boot({ name: "large", container });
    await cells.python(source, 'import os; open("/large", "wb").write(os.urandom(100 << 20))');
    const { manifestDigest } = await cells.checkpoint(source, "large", { contents });
    const small = join(cells.rig.directory, "small");
    await mkdir(small);
    expect(spawnSync("mount", ["-t", "tmpfs", "-o", "size=50m", "ramet-test", small]).status).toBe(0);
    onTestFinished(() => void spawnSync("umount", ["--lazy", small]));
    const startOn = async (more: object) => {
      const cell = await cells.clone(
        { name: "copy", container, ...more },
        { checkpointId: "large", manifestDigest, contents },
      );
      const { memory } = await cells.client.state(cell.address);
      return { cell, memory, loaded: cells.client.untilLoaded(cell.address) };
    };
    const refused = await startOn({ environment: { RAMET_CELL_DIRECTORY: small } });
    await expect(refused.loaded).rejects.toMatchObject({ message: expect.stringContaining("I/O error") as string });
    const copy = await startOn({});
    expect((await copy.loaded).memory).toBe("loaded");
    expect(await cells.python(copy.cell, 'print(len(open("/large", "rb").read()) >> 20)')).toBe("100");
  },
);

it("of which the store has only a part is lost, also with the size of the whole", async () => {
  const node = await newNode();
  const store = join(cells.rig.directory, "store");
  const sized = async (sizeBytes: number) => {
    const paths = (await readdir(store, { recursive: true })).map((name) => join(store, name));
    const stats = await Promise.all(paths.map((path) => stat(path)));
    return paths.filter((_, at) => stats[at]?.size === sizeBytes);
  };
  const part = Math.floor(layer.sizeBytes / 2);
  for (const [from, to] of [
    [layer.sizeBytes, part],
    [part, layer.sizeBytes],
  ] as const) {
    const paths = await sized(from);
    expect(paths).not.toEqual([]);
    for (const path of paths) await truncate(path, to);
    await expect((await prepared(node)).restore()).rejects.toMatchObject({ code: "CheckpointLost" });
  }
  expect((await left(node)).filter((name) => name !== ".lock")).toEqual([]);
});

describe("that is being captured", () => {
  const write = `import os
data = os.urandom(1 << 20)
with open("/large", "wb") as file:
  for n in range(200): file.write(data[n:] + data[:n])`;
  const hash = 'import hashlib; print(hashlib.sha256(open("/large", "rb").read()).hexdigest())';
  const kills = {
    cell: (cell: RunningCell) => cell.process.kill("SIGKILL"),
    sandbox: async (cell: RunningCell) => {
      for (const pid of await sentries(cell)) process.kill(pid, "SIGKILL");
    },
  };

  it.each(["cell", "sandbox"] as const)(
    "is in the store as a whole or not at all if its %s is killed",
    async (what) => {
      const published: boolean[] = [];
      for (const milliseconds of [0, 100, 300, 600, 1_000]) {
        const checkpointId = `${what}-${milliseconds}`;
        const builder = await cells.boot({ name: checkpointId, container });
        await cells.python(builder, write);
        const digest = await cells.python(builder, hash);
        const capture = cells
          .checkpoint(builder, checkpointId, { contents: ["filesystem"], asLayer: true })
          .catch(String);
        await delay(milliseconds);
        await kills[what](builder);
        const answer = await capture;
        // In a Pod, nothing of a container survives its first process.
        await kills.sandbox(builder);
        builder.process.kill("SIGTERM");
        const found = await cells.store.find({ namespace: "test", checkpointId });
        published.push(found !== undefined);
        if (found === undefined) {
          expect(answer).toMatch(/RametError/);
          continue;
        }
        const { manifestDigest } = found;
        const copy = await cells.clone(
          { name: `${checkpointId}-clone`, container },
          { ...found, checkpointId, manifestDigest, contents: ["filesystem"] },
        );
        expect(await cells.python(copy, hash)).toBe(digest);
        copy.process.kill("SIGTERM");
      }
      expect(published[0]).toBe(false);
      await cells.store.sweep({ livenessOf: () => Promise.resolve("finished"), olderThanMilliseconds: 0 });
      expect(await cells.store.usage("test")).toMatchObject({ stagingBytes: 0 });
    },
  );
});
