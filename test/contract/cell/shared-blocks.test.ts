import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, statfs, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import type { Contents } from "../../../src/api/schema/metadata.ts";
import { cgroupLayout } from "../../../src/cell/cgroup/layout.ts";
import { linkSidePrograms } from "../../../src/local/node/engine-bundles.ts";
import { acquireTools } from "../../../src/local/tools/acquire-tools.ts";
import { Manifest } from "../../../src/store/manifest.ts";
import { sentries } from "../../setup/cell-processes.ts";
import type { RunningCell } from "../../setup/cell-rig.ts";
import { both, Cells, namespace } from "../../setup/cells.ts";
import { mountXfs } from "../../setup/xfs-disk.ts";

const run = promisify(execFile);
const mebibyte = 1024 ** 2;
const container = { command: ["sleep", "infinity"] };

/** Mounts a new XFS file system of 4 GiB, in a sparse file. Undefined where that is not possible. */
async function xfsDisk(): Promise<{ path: string; unmount: () => Promise<void> } | undefined> {
  const directory = await mkdtemp(join(tmpdir(), "ramet-xfs-"));
  const [image, path] = [join(directory, "image"), join(directory, "disk")];
  const remove = (): Promise<void> => rm(directory, { recursive: true, force: true });
  try {
    await mkdir(path);
    await mountXfs({ image, path, gibibytes: 4 });
  } catch (error) {
    console.error(`Skipped, because no XFS disk can be mounted here: ${String(error)}`);
    await remove();
    return undefined;
  }
  return {
    path,
    unmount: async () => {
      await run("umount", [path]);
      await remove();
    },
  };
}

const memoryLayout = cgroupLayout(
  await readFile("/proc/self/cgroup", "utf8"),
  await readFile("/proc/self/mountinfo", "utf8"),
);
const disk = await xfsDisk();
const before = process.env["TMPDIR"];

describe.runIf(disk !== undefined)("on a disk whose files can share blocks", () => {
  let cells: Cells;
  let environment: Record<string, string>;

  beforeAll(async () => {
    process.env["TMPDIR"] = disk?.path;
    cells = await Cells.open();
    const tools = await acquireTools({ names: ["runsc", "ramet-gofer"] });
    const directory = join(cells.rig.directory, "side");
    environment = {
      RAMET_SIDE_PROGRAMS: await linkSidePrograms(directory, tools.runsc, tools["ramet-gofer"]),
    };
  });
  afterAll(async () => {
    await cells.close();
    if (before === undefined) delete process.env["TMPDIR"];
    else process.env["TMPDIR"] = before;
    await disk?.unmount();
  });

  function ended(cell: RunningCell): RunningCell {
    onTestFinished(() => {
      cell.process.kill("SIGTERM");
    });
    return cell;
  }

  const boot = async (name: string, own = environment): Promise<RunningCell> =>
    ended(await cells.boot({ name, container, environment: own }));

  /** Writes so many MiB of random bytes to a file, and prints their digest. */
  const write = (cell: RunningCell, path: string, mebibytes: number): Promise<string> =>
    cells.output(cell, `head -c ${mebibytes}M /dev/urandom > ${path} && sync && sha256sum < ${path}`);
  const digest = (cell: RunningCell, path: string): Promise<string> => cells.output(cell, `sha256sum < ${path}`);

  /** The bytes of the disk that are in use when everything is written. */
  async function used(): Promise<number> {
    await run("sync", ["--file-system", disk?.path ?? ""]);
    const { blocks, bfree, bsize } = await statfs(disk?.path ?? "");
    return (blocks - bfree) * bsize;
  }

  it.each([[both], [["filesystem"]]] satisfies [Contents][])(
    "a checkpoint of %j and its clones store files once",
    async (contents) => {
      const name = `once-${contents.length}`;
      const source = await boot(name);
      const written = await write(source, "/data", 256);
      const start = await used();
      const { manifestDigest } = await cells.checkpoint(source, name, { contents });
      const captured = await used();
      expect(captured - start).toBeLessThan(100 * mebibyte);

      const published = { checkpointId: name, manifestDigest, contents };
      const path = join(cells.rig.directory, "store", namespace, "checkpoints", name, "manifest.json");
      const manifest = Manifest.parse(JSON.parse(await readFile(path, "utf8")));
      expect(manifest.clonedBytes).toBeGreaterThanOrEqual(250 * mebibyte);
      const clones: RunningCell[] = [];
      for (const each of [1, 2])
        clones.push(ended(await cells.clone({ name: `${name}-clone-${each}`, container, environment }, published)));
      for (const clone of clones) expect(await digest(clone, "/data")).toBe(written);
      expect((await used()) - captured).toBeLessThan(100 * mebibyte);

      await cells.output(clones[0] as RunningCell, "printf changed | dd of=/data conv=notrunc status=none");
      for (const other of [source, clones[1] as RunningCell]) expect(await digest(other, "/data")).toBe(written);
    },
  );

  it("files are written to the disk before the pause of a checkpoint, which would wait for that", async () => {
    const source = await boot("dirty");
    await cells.output(source, "head -c 256M /dev/zero > /data");
    const { phases } = await cells.checkpoint(source, "dirty", { contents: ["filesystem"] });
    expect(Object.keys(phases)).toEqual(expect.arrayContaining(["flush", "engine"]));
    expect(Object.keys(phases).indexOf("flush")).toBeLessThan(Object.keys(phases).indexOf("engine"));
    expect(phases["flush"]).toBeGreaterThan(0);
  });

  it("a second checkpoint stores what has changed", async () => {
    const source = await boot("second");
    await write(source, "/data", 256);
    await cells.checkpoint(source, "first", { contents: ["filesystem"] });
    const start = await used();
    await cells.output(source, "head -c 12M /dev/urandom | dd of=/data conv=notrunc bs=1M status=none && sync");
    const changed = await digest(source, "/data");
    const { manifestDigest } = await cells.checkpoint(source, "second", { contents: ["filesystem"] });
    expect((await used()) - start).toBeLessThan(25 * mebibyte);
    const published = { checkpointId: "second", manifestDigest, contents: ["filesystem"] satisfies Contents };
    const clone = ended(await cells.clone({ name: "second-clone", container, environment }, published));
    expect(await digest(clone, "/data")).toBe(changed);
  });

  it("a cell without the gofer restores the same checkpoint by copying", async () => {
    const source = await boot("copied");
    const written = await write(source, "/data", 64);
    const { manifestDigest } = await cells.checkpoint(source, "copied");
    const clone = ended(
      await cells.clone({ name: "copied-clone", container }, { checkpointId: "copied", manifestDigest }),
    );
    expect(await digest(clone, "/data")).toBe(written);
  });

  it("a roll-back in place has the files of the checkpoint, and its memory counts against the limit", async () => {
    const command = ["python3", "-c", "import os, time; kept = os.urandom(150 << 20); time.sleep(10 ** 6)"];
    const limited = { command, resources: { memoryBytes: 512 * mebibyte } };
    const source = ended(await cells.boot({ name: "in-place", container: limited, environment, keepsWaiting: true }));
    const written = await write(source, "/data", 64);
    const { manifestDigest } = await cells.checkpoint(source, "in-place");
    await write(source, "/data", 80);
    const grant = await cells.readGrant({ checkpointId: "in-place", manifestDigest });
    const { identity, address } = source;
    await cells.client.restoreInPlace(address, { identity, grant, contents: both, request: "first" });
    expect(await digest(source, "/data")).toBe(written);
    if (memoryLayout?.version !== 1 || memoryLayout.own.memory === undefined) return;
    const [pid] = (await sentries(source)).slice(-1);
    const group = /:memory:(.*)/.exec(await readFile(`/proc/${pid}/cgroup`, "utf8"))?.[1] ?? "";
    const usage = (): Promise<string> => readFile(`/sys/fs/cgroup/memory${group}/memory.usage_in_bytes`, "utf8");
    await expect.poll(async () => Number(await usage()), { timeout: 60_000 }).toBeGreaterThan(150 * mebibyte);
  });

  it("nothing of a capture is left in the directory of the cell", async () => {
    const source = await boot("left");
    await write(source, "/data", 32);
    await cells.checkpoint(source, "left");
    const left = await readdir(join(source.directory, "gofer"), { recursive: true, withFileTypes: true });
    expect(left.filter((entry) => entry.isFile())).toEqual([]);
    expect(await cells.output(source, "ls -A /")).not.toContain(".clone");
  });

  it("a gofer that ends fails the checkpoint, and the sandbox keeps its files", async () => {
    const directory = join(cells.rig.directory, "broken");
    await mkdir(directory);
    await symlink("/bin/false", join(directory, "checkpointgofer"));
    const source = await boot("broken", { RAMET_SIDE_PROGRAMS: directory });
    const written = await write(source, "/data", 64);
    await expect(cells.checkpoint(source, "broken")).rejects.toMatchObject({ code: "EngineFailed" });
    expect(await digest(source, "/data")).toBe(written);
  });
});
