import { mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import type { LayerRef } from "../../../src/api/wire/grant.ts";
import { filesBelow } from "../../../src/store/directory/durable.ts";
import { processesOf, sentries } from "../../setup/cell-processes.ts";
import type { RunningCell, StartCellOptions } from "../../setup/cell-rig.ts";
import { both, Cells, namespace, type PublishedCheckpoint } from "../../setup/cells.ts";

/** Real cells. They share the unpacked layers as those of one node do. */
let cells: Cells;
beforeAll(async () => {
  cells = await Cells.open();
});
afterAll(() => cells.close());

const container = { command: ["sleep", "infinity"] };

function whileTest(cell: RunningCell): RunningCell {
  onTestFinished(() => {
    cell.process.kill("SIGTERM");
  });
  return cell;
}

const python = (cell: RunningCell, program: string) => cells.python(cell, program);

async function captureLayer(cell: RunningCell, checkpointId: string): Promise<LayerRef> {
  const request = { contents: ["filesystem" as const], asLayer: true as const };
  const { manifestDigest, sizeBytes } = await cells.checkpoint(cell, checkpointId, request);
  return { checkpointId, manifestDigest, sizeBytes };
}

const onNode = (directory = "layers"): Record<string, string> => ({
  RAMET_CELL_LAYERS: `${cells.rig.directory}/${directory}`,
});

/** The body of a request to restore a checkpoint on layers. */
async function requestOf({ identity }: RunningCell, checkpoint: PublishedCheckpoint, layers: readonly LayerRef[]) {
  const [grant, ...grants] = await Promise.all([checkpoint, ...layers].map((one) => cells.readGrant(one)));
  const { contents = both } = checkpoint;
  return { identity, grant: grant!, contents, layers: grants };
}

/** Starts a sandbox from a checkpoint on layers. */
async function startClone(
  name: string,
  checkpoint: PublishedCheckpoint,
  layers: readonly LayerRef[],
  more: Partial<StartCellOptions> = {},
): Promise<RunningCell> {
  const cell = await cells.rig.startCell({ name, container, start: "wait", environment: onNode(), ...more });
  await cells.client.restore(cell.address, await requestOf(cell, checkpoint, layers));
  return cell;
}

const clone = async (...args: Parameters<typeof startClone>) => whileTest(await startClone(...args));

const write = `import os
os.makedirs("/data/deep")
for n in range(4): open(f"/data/{n}", "wb").write(os.urandom(8 << 20))
os.link("/data/0", "/data/deep/link")
os.symlink("../0", "/data/deep/symlink")
os.chmod("/data/1", 0o4755)
os.chown("/data/2", 1000, 1000)
os.setxattr("/data/3", "user.color", b"blue")
os.remove("/usr/bin/env")
open("/tmp/left", "w").write("tmp")`;
const look = `import os
s = os.stat
print(s("/data/0").st_ino == s("/data/deep/link").st_ino, oct(s("/data/1").st_mode), s("/data/2").st_uid,
  os.getxattr("/data/3", "user.color"), os.readlink("/data/deep/symlink"), os.path.exists("/usr/bin/env"),
  open("/tmp/left").read(), len(open("/data/3", "rb").read()))`;
const expected = "True 0o104755 1000 b'blue' ../0 False tmp 8388608";
const filesOnly = (layer: LayerRef): PublishedCheckpoint => ({ ...layer, contents: ["filesystem"] });

it("has what a sandbox changed and nothing else, below clones that do not hold it in their memory", async () => {
  const builder = whileTest(await cells.boot({ name: "builder", container }));
  await python(builder, write);
  const layer = await captureLayer(builder, "layer");
  expect(layer.sizeBytes).toBeLessThan((32 << 20) + (1 << 20));
  const first = await clone("first", filesOnly(layer), []);
  expect(await python(first, look)).toBe(expected);
  await python(
    first,
    `open("/data/own", "w").write("x"); os = __import__("os"); os.rename("/data/deep", "/data/moved")`,
  );
  const memory = await cells.checkpoint(first, "memory");
  expect(memory.sizeBytes).toBeLessThan(16 << 20);
  const second = await clone("second", { checkpointId: "memory", ...memory }, [layer]);
  expect(await python(second, `import os; print(sorted(os.listdir("/data")), os.listdir("/data/moved"))`)).toMatch(
    /^\['0', '1', '2', '3', 'moved', 'own'\] \['(link', 'symlink|symlink', 'link)'\]$/,
  );
});

/** 100,000 by hand take two minutes. */
const many = Number(process.env["RAMET_TEST_FILES"] ?? 2_000);

it("has the files of one moment, of programs that keep moving and writing them, which then run on", async () => {
  // Reading what is between the two directories takes a while.
  const mover = `import os
for name in "amz": os.makedirs(f"/moves/{name}", exist_ok=True)
for n in range(16): open(f"/moves/m/{n}", "wb").write(os.urandom(4 << 20))
for n in range(100): open(f"/moves/a/{n}", "w").close()
def put(path, n):
  open("/moves/new", "w").write(str(n))
  os.rename("/moves/new", path)
n = -1
while True:
  n += 1
  put("/moves/a-first", n)
  put("/moves/z-last", n)
  here, there = "az" if n // 100 % 2 == 0 else "za"
  os.rename(f"/moves/{here}/{n % 100}", f"/moves/{there}/{n % 100}")`;
  const find = `import os
first, last = (int(open(f"/moves/{name}").read() if os.path.exists(f"/moves/{name}") else 0) for name in ("a-first", "z-last"))
print(first - last, len(os.listdir("/moves/a")) + len(os.listdir("/moves/z")), first)`;
  const builder = whileTest(await cells.boot({ name: "moved", container: { command: ["python3", "-c", mover] } }));
  const written = async () =>
    Number((await python(builder, 'print(open("/moves/z-last").read())').catch(() => "0")) || 0);
  await expect.poll(written).toBeGreaterThan(100);
  for (const round of [1, 2, 3]) {
    const layer = await captureLayer(builder, `moved-${round}`);
    const copy = await clone(`moved-copy-${round}`, filesOnly(layer), []);
    const [ahead, files, captured] = (await python(copy, find)).split(" ").map(Number);
    expect(ahead === 0 || ahead === 1).toBe(true);
    expect(files).toBe(100);
    await expect.poll(written).toBeGreaterThan((captured ?? Infinity) + 100);
  }
});

it("has thousands of small files, and their deletion", async () => {
  const builder = whileTest(await cells.boot({ name: "many", container }));
  const names = (from: number) => `f"/many/{n % 100}/{n}" for n in range(${from}, ${many})`;
  await python(
    builder,
    `import os
for n in range(100): os.makedirs(f"/many/{n}")
for path in (${names(0)}): open(path, "w").write(path)`,
  );
  const layer = await captureLayer(builder, "many");
  const first = await clone("many-first", filesOnly(layer), []);
  const count = `print(sum(open(path).read() == path for path in (${names(0)}) if os.path.exists(path)))`;
  expect(await python(first, `import os; ${count}`)).toBe(`${many}`);
  await python(first, `import os; [os.remove(path) for path in (${names(10)})]`);
  const above = await captureLayer(first, "fewer");
  const second = await clone("many-second", filesOnly(above), [layer]);
  expect(await python(second, `import os; ${count}`)).toBe("10");
});

it("can be above another layer, whose files it deletes", async () => {
  const builder = whileTest(await cells.boot({ name: "below", container }));
  await python(
    builder,
    `import os; os.makedirs("/a/b"); open("/a/b/one", "w").write("1"); open("/a/two", "w").write("2")`,
  );
  const below = await captureLayer(builder, "below");
  const next = await clone("next", filesOnly(below), []);
  await python(next, `import os, shutil; shutil.rmtree("/a/b"); os.mkdir("/a/b"); open("/a/b/three", "w").write("3")`);
  const above = await captureLayer(next, "above");
  const last = await clone("last", filesOnly(above), [below]);
  expect(await python(last, `import os; print(os.listdir("/a/b"), open("/a/two").read())`)).toBe("['three'] 2");
});

it("can be above layers that delete a file, make it again and delete it again", async () => {
  const steps = [
    "mkdir /w; echo 1 > /w/x; echo 1 > /w/y",
    "rm -r /w",
    "mkdir /w; echo 2 > /w/x",
    "rm /w/x; echo 3 > /w/z",
  ];
  const all: LayerRef[] = [];
  const on = (name: string) => clone(name, filesOnly(all.at(-1)!), all.slice(0, -1));
  for (const [at, step] of steps.entries()) {
    const name = `again-${at}`;
    const cell = at === 0 ? whileTest(await cells.boot({ name, container })) : await on(name);
    await cells.output(cell, step);
    all.push(await captureLayer(cell, name));
  }
  expect(await cells.output(await on("again-last"), "ls /w; cat /w/*")).toBe("z\n3");
});

/** Uses files of a layer and new ones, and writes what it has of them to /answer when there is /ask. */
const user = `import mmap, os, time
held, fresh = open("/a/held", "r+b"), open("/fresh", "w+b")
os.remove("/a/held"); os.remove("/fresh")
held.seek(0, 2); held.write(b" and more"); held.flush()
fresh.write(b"fresh"); fresh.flush()
os.link("/a/two", "/a/linked")
open("/a/linked", "a").write("+")
file = open("/mapped", "w+b"); file.truncate(1 << 20)
mapped, n = mmap.mmap(file.fileno(), 1 << 20), 0
while True:
  n += 1
  mapped[0:8] = n.to_bytes(8, "big"); mapped[-8:] = n.to_bytes(8, "big")
  if os.path.exists("/ask"):
    held.seek(0); fresh.seek(0); os.remove("/ask")
    open("/answer.new", "w").write(f"{held.read()} {fresh.read()}"); os.rename("/answer.new", "/answer")`;
const lookAtUsed = `import os
one, two, file = os.stat("/a/linked"), os.stat("/a/two"), open("/mapped", "rb").read()
behind = int.from_bytes(file[:8], "big") - int.from_bytes(file[-8:], "big")
print(one.st_ino == two.st_ino, one.st_nlink, open("/a/two").read(), os.listdir("/a"), behind in (0, 1), int.from_bytes(file[:8], "big") > 0)`;

it("has files that programs above it link, map, or delete while they are open, in clones with and without memory", async () => {
  const builder = whileTest(await cells.boot({ name: "used", container }));
  await cells.output(builder, "mkdir /a; printf held > /a/held; printf 2 > /a/two");
  const layer = await captureLayer(builder, "used");
  const using = { container: { command: ["python3", "-c", user] } };
  const source = await clone("using", filesOnly(layer), [], using);
  const ask = "touch /ask; until [ -e /answer ]; do sleep 0.01; done; cat /answer";
  const mapped = `print(any(open("/mapped", "rb").read()))`;
  await expect.poll(() => python(source, mapped).catch(() => "")).toBe("True");
  for (const contents of [both, ["filesystem" as const]]) {
    const checkpointId = `used-${contents.length}`;
    const { manifestDigest } = await cells.checkpoint(source, checkpointId, { contents });
    const isMemory = contents.length > 1;
    const copy = await clone(
      checkpointId,
      { checkpointId, manifestDigest, contents },
      [layer],
      isMemory ? using : { container },
    );
    if (isMemory) expect(await cells.output(copy, ask)).toBe("b'held and more' b'fresh'");
    else expect((await python(copy, lookAtUsed)).split(" [")[0]).toBe("True 2 2+");
    const found = `from pathlib import Path; print(sorted(p.name for p in Path("/a").iterdir()))`;
    expect(await python(copy, found)).toBe("['linked', 'two']");
    if (!isMemory) expect(await python(copy, lookAtUsed)).toMatch(/True True$/);
  }
  expect(await cells.output(source, ask)).toBe("b'held and more' b'fresh'");
});

it("has the holes of sparse files, in the store and in a clone", async () => {
  const before = await allocatedBytes(cells.rig.directory);
  const added = async () => (await allocatedBytes(cells.rig.directory)) - before;
  const builder = whileTest(await cells.boot({ name: "sparse", container }));
  await python(builder, `f = open("/sparse", "wb"); f.seek(2 << 30); f.write(b"end")`);
  const layer = await captureLayer(builder, "sparse");
  expect(layer.sizeBytes).toBeGreaterThan(2 * 1024 ** 3);
  expect(await added()).toBeLessThan(512 << 20);
  const one = await clone("sparse-clone", filesOnly(layer), []);
  const end = `f = open("/sparse", "rb"); f.seek(-4, 2); print(f.tell(), f.read())`;
  expect(await python(one, end)).toBe(`${2 * 1024 ** 3 - 1} b'\\x00end'`);
  expect(await added()).toBeLessThan(512 << 20);
});

describe.each([
  ["is gone", "rm -r /tmp", "d"],
  ["is a link", "rm -r /tmp; ln -s /var/tmp /tmp", "l"],
  ["is a file", "rm -r /tmp; echo kept > /tmp", "-\nkept"],
])("a root whose /tmp %s", (what, change, expected) => {
  const name = what.replaceAll(" ", "-");
  const kind = "ls -ld /tmp | cut -c 1; cat /tmp 2>/dev/null";

  it("starts, is captured with and without memory, and starts again", async () => {
    const builder = whileTest(await cells.boot({ name, container }));
    await cells.output(builder, change);
    const layer = await captureLayer(builder, name);
    const first = await clone(`${name}-first`, filesOnly(layer), []);
    const found = await cells.output(first, kind);
    expect(found).toBe(expected);
    const memory = await cells.checkpoint(first, `${name}-memory`);
    const second = await clone(`${name}-second`, { checkpointId: `${name}-memory`, ...memory }, [layer]);
    expect(await cells.output(second, kind)).toBe(found);
  });
});

it("has nothing of a volume at /tmp/", async () => {
  const source = join(cells.rig.directory, "volume");
  await mkdir(source);
  const mounts = [{ source, target: "/tmp/", readOnly: false }];
  const builder = whileTest(await cells.boot({ name: "volume", container: { ...container, mounts } }));
  await cells.output(builder, "echo a > /tmp/a; echo b > /opt/b");
  const layer = await captureLayer(builder, "volume");
  const one = await clone("volume-clone", filesOnly(layer), []);
  expect(await cells.output(one, "ls /tmp /opt/b")).toBe("/opt/b\n\n/tmp:");
});

/** The bytes on the disk of all files below a directory, besides those of sandboxes. */
async function allocatedBytes(directory: string): Promise<number> {
  const files = (await Promise.all(["store", "layers"].map((name) => filesBelow(join(directory, name))))).flat();
  return files.reduce((sum, { blocks }) => sum + Number(blocks) * 512, 0);
}

it("is refused without the layers below it, before anything starts", async () => {
  const [below] = await Promise.all([cells.store.find({ namespace: "test", checkpointId: "above" })]);
  await expect(
    clone("without", { checkpointId: "above", manifestDigest: below!.manifestDigest, contents: ["filesystem"] }, []),
  ).rejects.toMatchObject({
    code: "InvalidArgument",
    message: expect.stringContaining("it needs the layers below") as string,
  });
});

describe("a sandbox that waits for a restore", () => {
  const layers = { plain: [] as LayerRef[], one: [] as LayerRef[], two: [] as LayerRef[] };
  type Name = keyof typeof layers;
  const checkpoints = new Map<Name, PublishedCheckpoint>();
  const files = `import os
read = lambda path: open(path).read() if os.path.exists(path) else None
print(read("/opt/mark"), read("/opt/one"), read("/opt/two"), os.path.exists("/usr/bin/env"), os.path.exists("/etc/resolv.conf"))`;
  const expectedFiles = {
    plain: "plain None None True True",
    one: "one 1 None False True",
    two: "two None 2 False True",
  };

  async function capture(cell: RunningCell, name: Name): Promise<void> {
    await python(cell, `open("/opt/mark", "w").write("${name}")`);
    checkpoints.set(name, { checkpointId: `waiting-${name}`, ...(await cells.checkpoint(cell, `waiting-${name}`)) });
    await python(cell, `import os; os.remove("/opt/mark")`);
  }

  beforeAll(async () => {
    const builder = await cells.boot({ name: "waiting-builder", container });
    await capture(builder, "plain");
    await python(builder, `import os; open("/opt/one", "w").write("1"); os.remove("/usr/bin/env")`);
    layers.one = [await captureLayer(builder, "waiting-layer-one")];
    const first = await startClone("waiting-first", filesOnly(layers.one[0]!), []);
    await capture(first, "one");
    await python(first, `import os; os.remove("/opt/one"); open("/opt/two", "w").write("2")`);
    layers.two = [...layers.one, await captureLayer(first, "waiting-layer-two")];
    const second = await startClone("waiting-second", filesOnly(layers.two[1]!), layers.one);
    await capture(second, "two");
    for (const { process: cell } of [builder, first, second]) cell.kill("SIGTERM");
  });

  /** Starts a clone in which a sandbox waits, as in a set. */
  async function warm(name: string, from: Name, more: Parameters<typeof startClone>[3] = {}) {
    const cell = await clone(name, checkpoints.get(from)!, layers[from], { keepsWaiting: true, ...more });
    await expect.poll(() => sentries(cell).then((all) => all.length)).toBe(2);
    const [, waiting] = await sentries(cell);
    return { cell, waiting: waiting! };
  }

  async function restore(cell: RunningCell, name: Name, request: string): Promise<void> {
    const body = await requestOf(cell, checkpoints.get(name)!, layers[name]);
    await cells.client.restoreInPlace(cell.address, { ...body, request });
  }

  const roots = (cell: RunningCell) => readdir(join(cell.directory, "root")).then((names) => names.length);

  it.each<[Name, Name]>([
    ["plain", "one"],
    ["plain", "two"],
    ["one", "two"],
    ["two", "one"],
    ["two", "plain"],
  ])("gets the layers of its checkpoint: from %s to %s and back", async (from, to) => {
    const { cell, waiting } = await warm(`from-${from}-to-${to}`, from);
    await restore(cell, to, "there");
    expect(await python(cell, files)).toBe(expectedFiles[to]);
    await expect.poll(() => sentries(cell)).toEqual([waiting]);
    const after = await cells.checkpoint(cell, `after-${from}-${to}`);
    const copy = await clone(`copy-${from}-${to}`, { checkpointId: `after-${from}-${to}`, ...after }, layers[to]);
    expect(await python(copy, files)).toBe(expectedFiles[to]);
    await restore(cell, from, "back");
    expect(await python(cell, files)).toBe(expectedFiles[from]);
    // Nothing of the first two sandboxes is left, but a root without layers that none of them has taken.
    await expect.poll(() => roots(cell)).toBe(from === "plain" || to === "plain" ? 1 : 2);
  });

  it("leaves no layer on the disk of its cell that it does not use any more, unless other cells have them too", async () => {
    const { cell } = await warm("own-layers", "two", { environment: {} });
    const present = async () => (await readdir(join(cell.directory, "layers")).catch(() => [])).toSorted();
    const expectedOf = (name: Name) =>
      layers[name]
        .map(({ checkpointId, manifestDigest }) => `${checkpointId}.${manifestDigest.replace("sha256:", "")}`)
        .flatMap((layer) => [layer, `${layer}.lock`])
        .toSorted();
    expect(await present()).toEqual(expectedOf("two"));
    for (const name of ["one", "two", "plain", "one"] as const) {
      await restore(cell, name, `${name}-${performance.now()}`);
      await expect.poll(present).toEqual(expectedOf(name));
      expect(await python(cell, files)).toBe(expectedFiles[name]);
    }
    const lost = { checkpointId: "waiting-nothing", manifestDigest: `sha256:${"0".repeat(64)}` };
    const body = await requestOf(cell, { ...lost, contents: ["filesystem"] }, layers.two);
    await expect(cells.client.restoreInPlace(cell.address, { ...body, request: "lost" })).rejects.toThrow();
    await expect.poll(present).toEqual(expectedOf("one"));
    expect(await python(cell, files)).toBe(expectedFiles.one);
  });

  it("gets a layer that was removed from the node and unpacked again", async () => {
    const { cell, waiting } = await warm("removed", "one", { environment: onNode("layers-removed") });
    await rm(join(cells.rig.directory, "layers-removed"), { recursive: true });
    await restore(cell, "one", "again");
    expect(await python(cell, files)).toBe(expectedFiles.one);
    await expect.poll(() => sentries(cell)).toEqual([waiting]);
  });

  it("takes another checkpoint after one whose layer is lost", async () => {
    const { cell, waiting } = await warm("lost", "plain", { environment: onNode("layers-lost") });
    const layer = await captureLayer(cell, "lost-layer");
    const source = await clone("lost-source", filesOnly(layer), []);
    const memory = await cells.checkpoint(source, "lost-memory");
    await cells.store.remove({ namespace, checkpointId: "lost-layer" });
    const lost = await requestOf(cell, { checkpointId: "lost-memory", ...memory }, [layer]);
    await expect(cells.client.restoreInPlace(cell.address, { ...lost, request: "lost" })).rejects.toMatchObject({
      code: "CheckpointLost",
    });
    expect(await python(cell, files)).toBe(expectedFiles.plain);
    await restore(cell, "one", "other");
    expect(await python(cell, files)).toBe(expectedFiles.one);
    await expect.poll(() => sentries(cell)).toEqual([waiting]);
  });

  it.each([
    ["was killed before its first step", "kill -9 $$"],
    ["failed after its last step", `"$LINK" "$@"; exit 1`],
  ])("is replaced if the program that changes its layers %s, and the restore succeeds", async (_, script) => {
    const link = join(cells.rig.directory, "failing-link");
    const real = cells.rig.tools["ramet-link"];
    await writeFile(link, `#!/bin/sh\nLINK=${real}\nif [ "$1" = root ]; then ${script}; fi\nexec "$LINK" "$@"\n`, {
      mode: 0o755,
    });
    const { cell, waiting } = await warm("failing", "plain", { environment: { ...onNode(), RAMET_LINK: link } });
    await restore(cell, "one", "there");
    expect(await python(cell, files)).toBe(expectedFiles.one);
    await expect.poll(() => sentries(cell)).not.toContain(waiting);
    // Nothing of the other sandboxes is left.
    await expect.poll(() => roots(cell)).toBe(1);
  });

  it.runIf(process.getuid?.() === 0)("is replaced where the cell has no SYS_CHROOT, as on a kubelet", async () => {
    const within = ["setpriv", "--bounding-set=-sys_chroot", "--inh-caps=-sys_chroot"];
    const limited = { ...container, resources: { memoryBytes: 256 * 2 ** 20 } };
    const { cell, waiting } = await warm("confined", "plain", { within, container: limited });
    await restore(cell, "one", "there");
    expect(await python(cell, files)).toBe(expectedFiles.one);
    expect(cell.logLines.join()).toContain("operation not permitted; another sandbox is created");
    await expect.poll(() => sentries(cell)).not.toContain(waiting);
  });

  it("is replaced if its gofer ended, and the restore succeeds", async () => {
    const { cell, waiting } = await warm("killed", "plain");
    const gofers = () => processesOf((line) => line.startsWith("runsc-gofer") && line.includes(cell.directory));
    const killed = (await gofers()).at(-1)!;
    process.kill(killed, "SIGKILL");
    await expect.poll(gofers).not.toContain(killed);
    await restore(cell, "one", "there");
    expect(await python(cell, files)).toBe(expectedFiles.one);
    await expect.poll(() => sentries(cell)).not.toContain(waiting);
  });
});
