import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import type { ContainerSpec } from "../../../src/api/wire/cell-api.ts";
import { cgroupLayout } from "../../../src/cell/cgroup/layout.ts";
import { piecesOf } from "../../../src/store/manifest.ts";
import type { RunningCell } from "../../setup/cell-rig.ts";
import type { Contents } from "../../../src/api/schema/metadata.ts";
import { both, type CellOptions, Cells, namespace } from "../../setup/cells.ts";

const mebibyte = 1024 ** 2;
const layout = cgroupLayout(
  await readFile("/proc/self/cgroup", "utf8"),
  await readFile("/proc/self/mountinfo", "utf8"),
);
/** Whether this process can limit the memory of a cell: as root, with cgroup v1. */
const own = layout?.version === 1 && process.getuid?.() === 0 ? layout.own : {};

/** Writes so many MiB of random bytes to /data, in 16 files, and prints their digest. */
const write = (mebibytes: number) => `import hashlib, os
os.makedirs("/data", exist_ok=True)
digest = hashlib.sha256()
for number in range(16):
  with open(f"/data/{number}", "wb") as file:
    for _ in range(${mebibytes / 16}):
      block = os.urandom(1 << 20)
      digest.update(block)
      file.write(block)
print(digest.hexdigest())`;
const read = `import hashlib
digest = hashlib.sha256()
for number in range(16):
  with open(f"/data/{number}", "rb") as file:
    while block := file.read(1 << 20): digest.update(block)
print(digest.hexdigest())`;

describe.runIf(own.memory !== undefined)("files of a sandbox with 256 MiB of memory", () => {
  let cells: Cells;
  const resources: ContainerSpec["resources"] = { memoryBytes: 256 * mebibyte, storageBytes: 900 * mebibyte };
  const container = { command: ["sleep", "infinity"], resources };

  beforeAll(async () => {
    cells = await Cells.open();
  });
  afterAll(() => cells.close());

  async function boot(name: string): Promise<RunningCell> {
    const cell = await cells.boot({ name, container });
    onTestFinished(() => {
      cell.process.kill("SIGTERM");
    });
    return cell;
  }

  const python = (cell: RunningCell, program: string) => cells.python(cell, program);

  it("can be larger than its memory, and are in its clones with and without memory", async () => {
    const cell = await boot("large");
    const digest = await python(cell, write(640));
    expect(digest).toHaveLength(64);
    expect(await python(cell, read)).toBe(digest);
    for (const contents of [["filesystem"] as const, ["memory", "filesystem"] as const]) {
      const checkpointId = `large-${contents.length}`;
      const { manifestDigest, sizeBytes } = await cells.checkpoint(cell, checkpointId, {
        contents: [...contents],
      });
      expect(sizeBytes).toBeGreaterThan(640 * mebibyte);
      const manifest = await cells.store.manifest({ namespace, checkpointId, digest: manifestDigest });
      const pieces = new Map(piecesOf(manifest)?.map((piece) => [piece.content, piece]));
      expect([...pieces.keys()]).toEqual(contents);
      expect(pieces.get("filesystem")?.sizeBytes).toBeGreaterThan(640 * mebibyte);
      expect(pieces.get("memory")?.sizeBytes ?? 0).toBeLessThan(128 * mebibyte);
      expect([...pieces.values()].reduce((sum, piece) => sum + piece.sizeBytes, 0)).toBe(sizeBytes);
      const clone = await cells.clone(
        { name: `clone-${contents.length}`, container },
        { checkpointId, manifestDigest, contents: [...contents] },
      );
      expect(await python(clone, read)).toBe(digest);
      clone.process.kill("SIGTERM");
      expect(await python(cell, read)).toBe(digest);
    }
  });

  it.each<[string, Contents]>([
    ["files alone", ["filesystem"]],
    ["memory too", ["memory", "filesystem"]],
  ])("can be as large as the layer with a hole, whose clone has as little data: %s", async (_, contents) => {
    const size = 10 * 1024 * mebibyte;
    const cell = await boot("sparse");
    const last =
      'f = open("/sparse", "rb"); f.seek(-4, 2); print(f.tell(), f.read(), sum(f.seek(0) or f.read(1 << 20)))';
    await python(cell, `f = open("/sparse", "wb"); f.seek(${size - 3}); f.write(b"end")`);
    const checkpointId = `sparse-${contents.length}`;
    const { manifestDigest, sizeBytes } = await cells.checkpoint(cell, checkpointId, { contents });
    expect(sizeBytes).toBeLessThan(200 * mebibyte);
    const clone = await cells.clone({ name: checkpointId, container }, { checkpointId, manifestDigest, contents });
    onTestFinished(() => {
      clone.process.kill("SIGTERM");
    });
    expect(await python(clone, last)).toBe(`${size - 4} b'\\x00end' 0`);
  });

  it("can also be in /tmp, and are in a clone of files alone", async () => {
    const cell = await boot("tmp");
    expect(await cells.output(cell, "stat -c %a /tmp; head -c 400M /dev/zero > /tmp/zeros; du -m /tmp/zeros")).toBe(
      "1777\n400\t/tmp/zeros",
    );
    const contents: Contents = ["filesystem"];
    const { manifestDigest } = await cells.checkpoint(cell, "tmp-files", { contents });
    const clone = await cells.clone(
      { name: "tmp-clone", container },
      { checkpointId: "tmp-files", manifestDigest, contents },
    );
    onTestFinished(() => {
      clone.process.kill("SIGTERM");
    });
    expect(await cells.output(clone, "stat -c '%a %s' /tmp /tmp/zeros | tail -n 1; stat -c %a /tmp")).toBe(
      `644 ${400 * mebibyte}\n1777`,
    );
  });

  it("can be in a /tmp in memory where the root is read-only", async () => {
    const cell = await cells.boot({ name: "read-only", container: { ...container, readOnlyRoot: true } });
    onTestFinished(() => {
      cell.process.kill("SIGTERM");
    });
    expect(await cells.output(cell, "touch /file 2>/dev/null || echo a > /tmp/file; cat /tmp/file")).toBe("a");
  });

  it("are refused with ENOSPC when the layer is full, and the sandbox keeps running", async () => {
    const cell = await boot("full");
    expect(
      await python(
        cell,
        `import os
try:
  with open("/data", "wb") as file:
    while True: file.write(b"x" * (1 << 20))
except OSError as error: print(error.strerror, os.stat("/data").st_size >> 20)`,
      ),
    ).toMatch(/^No space left on device 8\d\d$/);
    expect(
      await python(
        cell,
        `import os, shutil
os.remove("/data")
print(shutil.disk_usage("/").total >> 20)
open("/more", "wb").write(b"x" * (100 << 20))
print(os.stat("/more").st_size >> 20)`,
      ),
    ).toBe("900\n100");
  });

  it("have the layer of their memory in a clone, and that of the template without memory, which the cell reports", async () => {
    const cell = await boot("sized");
    const size = (one: RunningCell) => cells.python(one, `import shutil; print(shutil.disk_usage("/").total >> 20)`);
    const reported = async ({ address }: RunningCell) => (await cells.client.state(address)).writableLayer;
    const disk = (mebibytes: number) => ({ medium: "disk", sizeBytes: mebibytes * mebibyte });
    expect(await reported(cell)).toEqual(disk(900));
    const digest = await python(cell, write(160));
    const files: Contents = ["filesystem"];
    const published = async (checkpointId: string, contents: Contents) => {
      const { manifestDigest } = await cells.checkpoint(cell, checkpointId, { contents });
      return { checkpointId, manifestDigest, contents };
    };
    const [ofFiles, ofMemory] = [await published("sized-files", files), await published("sized-memory", both)];

    // Another template: the memory, the layer, the program, the variables and a volume differ.
    const other: CellOptions["container"] = {
      command: ["sleep", "1000"],
      env: [{ name: "OTHER", value: "set" }],
      resources: { memoryBytes: 384 * mebibyte, storageBytes: 1200 * mebibyte },
      mounts: [{ source: cells.rig.directory, target: "/volume", readOnly: true }],
    };
    const started = (one: RunningCell) => {
      onTestFinished(() => {
        one.process.kill("SIGTERM");
      });
      return one;
    };
    const clone = started(await cells.clone({ name: "sized-clone", container: other }, ofFiles));
    expect(await python(clone, read)).toBe(digest);
    expect(await cells.output(clone, "echo $OTHER; ls -d /volume")).toBe("set\n/volume");
    expect([await size(clone), await reported(clone)]).toEqual(["1200", disk(1200)]);
    const inPlace = async ({ contents, ...checkpoint }: typeof ofFiles, request: string) => {
      const { identity, address } = cell;
      const grant = await cells.readGrant(checkpoint);
      await cells.client.restoreInPlace(address, { identity, grant, contents, request });
    };
    await inPlace(ofMemory, "one");
    expect([await size(cell), await reported(cell)]).toEqual(["900", disk(900)]);

    const larger = { ...container, resources: { ...resources, storageBytes: 1200 * mebibyte } };
    const same = started(await cells.clone({ name: "sized-same", container: larger }, ofMemory));
    expect([await size(same), await reported(same)]).toEqual(["900", disk(900)]);
    const { manifestDigest } = await cells.checkpoint(same, "sized-again");
    const manifest = await cells.store.manifest({ namespace, checkpointId: "sized-again", digest: manifestDigest });
    expect(manifest.container.resources.storageBytes).toBe(900 * mebibyte);

    const small = { ...container, resources: { ...resources, storageBytes: 100 * mebibyte } };
    const refused = await cells.rig.startCell({ name: "sized-small", start: "wait", container: small });
    await expect(cells.restore(refused, ofFiles)).rejects.toMatchObject({
      code: "NeedNotMet",
      message: expect.stringMatching(/it needs a writable layer of \S+, but the sandbox has 100Mi$/) as string,
    });
  });

  it("have the default of their namespace or runtime without a limit, also in memory of a larger layer", async () => {
    const unlimited = { ...container, resources: { memoryBytes: 256 * mebibyte } };
    const source = await cells.boot({ name: "default", container: unlimited });
    const { manifestDigest } = await cells.checkpoint(source, "default");
    const layerBytes = 300 * mebibyte;
    const own = await cells.boot({ name: "lowered", container: unlimited, layerBytes });
    const clone = await cells.clone(
      { name: "kept", container: unlimited, layerBytes },
      { checkpointId: "default", manifestDigest },
    );
    const sizes = [];
    for (const one of [source, own, clone]) {
      sizes.push((await cells.client.state(one.address)).writableLayer?.sizeBytes);
      one.process.kill("SIGTERM");
    }
    expect(sizes).toEqual([10 * 1024 ** 3, layerBytes, 10 * 1024 ** 3]);
  });

  it("are in a file that neither the sandbox nor the one that replaces it sees", async () => {
    const cell = await cells.boot({ name: "hidden", container, keepsWaiting: true });
    // A change of the directory ends gVisor's list of it from before the restore.
    const root = `import os; os.mkdir("/new"); os.rmdir("/new"); print(sorted(os.listdir("/")))`;
    const before = await python(cell, root);
    expect(before).not.toContain("gvisor");
    const { manifestDigest } = await cells.checkpoint(cell, "hidden");
    await python(cell, `open("/later", "wb").write(b"x" * (8 << 20))`);
    const grant = await cells.readGrant({ checkpointId: "hidden", manifestDigest });
    const { identity, address } = cell;
    await cells.client.restoreInPlace(address, { identity, grant, contents: both, request: "first" });
    expect(await python(cell, root)).toBe(before);
    cell.process.kill("SIGTERM");
  });
});
