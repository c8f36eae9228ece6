import { lstat, mkdir, open, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import type { Grant, LayerRef } from "../../src/api/wire/grant.ts";
import { goArchitecture } from "../../src/base/machine.ts";
import { layerFile } from "../../src/store/manifest.ts";
import { openForWrite } from "../../src/store/open.ts";
import { draft } from "../contract/store/draft.ts";
import { sentries } from "../setup/cell-processes.ts";
import type { RunningCell } from "../setup/cell-rig.ts";
import { Cells, namespace } from "../setup/cells.ts";

/** Layers of sandboxes that were taken over, and real cells that make clones of them. */
let cells: Cells;
let secret: string;
let number = 0;
beforeAll(async () => {
  cells = await Cells.open();
  secret = join(cells.rig.directory, "secret");
  await writeFile(secret, "secret", { mode: 0o600 });
});
afterAll(() => cells.close());

const container = { command: ["sleep", "infinity"] };

interface Entry {
  name: string;
  /** @default a file */
  type?: "file" | "hardLink" | "symlink" | "character" | "block" | "directory";
  to?: string;
  mode?: number;
  content?: string;
  /** @default that of the content */
  size?: number;
}

const types = { file: "0", hardLink: "1", symlink: "2", character: "3", block: "4", directory: "5" };

/** An entry of a tar (POSIX ustar). */
function entryOf({ name, type = "file", to = "", mode = 0o644, content = "", size = content.length }: Entry): Buffer {
  const header = Buffer.alloc(512);
  const octal = (value: number, at: number, length: number) =>
    header.write(`${value.toString(8).padStart(length - 1, "0")}\0`, at, "latin1");
  header.write(name, 0);
  octal(mode, 100, 8);
  octal(process.getuid?.() ?? 0, 108, 8);
  octal(process.getgid?.() ?? 0, 116, 8);
  octal(size, 124, 12);
  octal(0, 136, 12);
  header.write(`        ${types[type]}${to}`, 148);
  header.write("ustar\x0000", 257, "latin1");
  // The device of memory, or of the first disk.
  octal(type === "block" ? 8 : 1, 329, 8);
  octal(1, 337, 8);
  octal(
    header.reduce((sum, byte) => sum + byte, 0),
    148,
    8,
  );
  return Buffer.concat([header, Buffer.from(content), Buffer.alloc((512 - (content.length % 512)) % 512)]);
}

const tarOf = (...entries: Entry[]): Buffer => Buffer.concat([...entries.map(entryOf), Buffer.alloc(1024)]);

/** Publishes a layer as a cell does. */
async function publish(
  tar: Buffer,
  { layers, of = namespace }: { layers?: LayerRef[]; of?: string } = {},
): Promise<LayerRef> {
  const checkpointId = `hostile-${++number}`;
  const grant = await cells.store.grantWrite({ namespace: of, checkpointId, ttlMilliseconds: 60_000 });
  const session = await openForWrite(grant);
  try {
    await writeFile(join(session.stagingPath, layerFile), tar);
    const { engine, ...rest } = draft({ contents: ["filesystem"], ...(layers && { layers }) });
    const here = { ...engine, architecture: goArchitecture };
    const { manifestDigest } = await session.publish({ ...rest, engine: here });
    return { checkpointId, manifestDigest, sizeBytes: tar.length };
  } finally {
    await session.abandon();
  }
}

interface Cloned {
  cell: RunningCell;
  /** The directory of the unpacked layers of its node. */
  layers: string;
}

/** Starts a clone on a node that has no layers yet. @param kept what a clone that is refused leaves there @default nothing */
async function clone(layer: LayerRef, below: Grant[] = [], kept: string[] = []): Promise<Cloned> {
  const layers = join(cells.rig.directory, `layers-${++number}`);
  const environment = { RAMET_CELL_LAYERS: layers };
  const cell = await cells.rig.startCell({ name: `clone-${number}`, container, start: "wait", environment });
  onTestFinished(() => {
    cell.process.kill("SIGTERM");
  });
  const grant = await cells.readGrant(layer);
  const request = { identity: cell.identity, grant, contents: ["filesystem" as const] };
  const restored = cells.client.restore(cell.address, { ...request, ...(below.length > 0 && { layers: below }) });
  await restored.catch(async (error: unknown) => {
    const names = await readdir(layers).catch(() => []);
    expect(names.filter((name) => !name.endsWith(".lock"))).toEqual(kept);
    throw error;
  });
  return { cell, layers };
}

async function filesBelow(directory: string): Promise<string[]> {
  return (await readdir(directory, { recursive: true })).map((name) => join(directory, name));
}

it.each<[string, Entry[]]>([
  ["a name that leads up", [{ name: "../../secret", content: "forged" }]],
  ["an absolute name", [{ name: "/etc/forged", content: "forged" }]],
  [
    "a directory that is a link",
    [
      { name: "a", type: "symlink", to: "../.." },
      { name: "a/secret", content: "forged" },
    ],
  ],
  ["a hard link out of the layer", [{ name: "a", type: "hardLink", to: "../../secret" }]],
  [
    "a hard link through a link",
    [
      { name: "a", type: "symlink", to: "../.." },
      { name: "b", type: "hardLink", to: "a/secret" },
    ],
  ],
  ["a deleted file out of the layer", [{ name: ".wh...", content: "" }]],
  ["a deleted file behind a link", [{ name: "a", type: "symlink", to: "../.." }, { name: "a/.wh.secret" }]],
  ["a device in place of a deleted file", [{ name: ".wh.a", type: "character" }]],
  ["a file of gVisor", [{ name: ".gvisor.filestore.forged", content: "forged" }]],
  ["a file that is larger than the layer", [{ name: "a", size: 2 ** 32, content: "forged" }]],
  [
    "the same file twice",
    [
      { name: "a", content: "1" },
      { name: "a", content: "2" },
    ],
  ],
])("of a sandbox that was taken over is refused with %s, and leaves nothing on the node", async (_, entries) => {
  const layer = await publish(tarOf({ name: "first", content: "first" }, ...entries));
  await expect(clone(layer)).rejects.toMatchObject({ code: "CheckpointLost" });
  expect(await readFile(secret, "utf8")).toBe("secret");
  expect(await stat(secret)).toMatchObject({ nlink: 1, size: 6 });
});

it("brings no device to the node, and its links lead to the sandbox's own files", async () => {
  const layer = await publish(
    tarOf(
      { name: "a", type: "directory", mode: 0o755 },
      { name: "a/memory", type: "character", mode: 0o666 },
      { name: "a/disk", type: "block", mode: 0o666 },
      { name: "a/up", type: "symlink", to: `../../../../../../../..${secret}` },
      { name: "a/absolute", type: "symlink", to: secret },
      { name: "a/name", type: "symlink", to: "../../../../../../../../etc/hostname" },
      { name: "a/root", content: "#!/bin/sh\nid -u", mode: 0o6755 },
      { name: "etc", type: "directory", mode: 0o755 },
      { name: "etc/.wh.passwd" },
    ),
  );
  const { cell, layers } = await clone(layer);
  const look = `import os
def read(path):
    try: return open(path).read().strip()
    except OSError as e: return type(e).__name__
print(sorted(os.listdir("/a")), read("/a/up"), read("/a/absolute"), read("/a/name"), oct(os.stat("/a/root").st_mode), read("/etc/passwd"))`;
  expect(await cells.python(cell, look)).toBe(
    `['absolute', 'name', 'root', 'up'] FileNotFoundError FileNotFoundError ${cell.identity.hostname} 0o106755 FileNotFoundError`,
  );
  const devices = await Promise.all(
    (await filesBelow(layers)).map(async (path) => {
      const found = await lstat(path);
      return found.isCharacterDevice() || found.isBlockDevice() ? [path.slice(-"etc/passwd".length), found.rdev] : [];
    }),
  );
  // Overlayfs marks a deleted file by a device with the number 0.
  expect(devices.flat()).toEqual(["etc/passwd", 0]);
  expect((await stat(layers)).mode & 0o777).toBe(0o700);
});

it.each<[string, Entry[]]>([
  ["the directory of a mount", [{ name: "etc", type: "symlink", to: "OUTSIDE" }]],
  ["the directory of the guest", [{ name: ".ramet", type: "symlink", to: "../../../../../../../../../../OUTSIDE" }]],
  [
    "a mounted file",
    [
      { name: "etc", type: "directory", mode: 0o755 },
      { name: "etc/resolv.conf", type: "symlink", to: "OUTSIDE/file" },
    ],
  ],
  [
    "a directory in place of a mounted file",
    [
      { name: ".ramet", type: "directory", mode: 0o755 },
      { name: ".ramet/guest", type: "directory", mode: 0o755 },
    ],
  ],
])("brings nothing out of a sandbox that waits, with a link or another kind for %s", async (_, entries) => {
  const outside = join(cells.rig.directory, `outside-${++number}`);
  await mkdir(outside);
  const layer = await publish(
    tarOf(...entries.map(({ to = "", ...entry }) => ({ ...entry, to: to.replace("OUTSIDE", outside) }))),
  );
  const cell = await cells.boot({ name: `waits-${number}`, container, keepsWaiting: true });
  onTestFinished(() => {
    cell.process.kill("SIGTERM");
  });
  await expect.poll(() => sentries(cell).then((all) => all.length)).toBe(2);
  const grant = await cells.readGrant(layer);
  const request = { identity: cell.identity, grant, contents: ["filesystem" as const], request: "1" };
  // As in a new Pod, gVisor may refuse to start such a sandbox.
  await cells.client.restoreInPlace(cell.address, request).catch(() => undefined);
  expect(cell.logLines.join("\n")).toContain("creating the mount point");
  expect(await readdir(outside)).toEqual([]);
});

it("is not read from another namespace, whatever a checkpoint says about its layers", async () => {
  const ofOthers = await publish(tarOf({ name: "others", content: "secret of others" }), { of: "others" });
  const forged = await publish(tarOf({ name: "own", content: "own" }), { layers: [ofOthers] });
  const lost = { code: "CheckpointLost" };
  // The controllers give grants for the namespace of the clone only.
  const kept = [`${forged.checkpointId}.${forged.manifestDigest.slice("sha256:".length)}`];
  await expect(clone(forged, [await cells.readGrant(ofOthers)], kept)).rejects.toMatchObject(lost);
  // A layer of its own with the id and another digest, and one with the digest and another id.
  const own = await publish(tarOf({ name: "own", content: "other" }));
  await expect(clone({ ...own, manifestDigest: ofOthers.manifestDigest })).rejects.toMatchObject(lost);
  await expect(clone({ ...own, checkpointId: forged.checkpointId })).rejects.toMatchObject(lost);
  for (const checkpointId of ["../others/checkpoints/hostile-1", "..", "a/b", ""])
    await expect(publish(tarOf({ name: "a" }), { layers: [{ ...ofOthers, checkpointId }] })).rejects.toMatchObject({
      code: "InvalidArgument",
    });
});

it.each([
  ["in a name", 0],
  ["in the content of a file", 512],
  ["after its end", 1_024],
])("is lost with one changed byte %s", async (_, at) => {
  const layer = await publish(tarOf({ name: `file-${at}`, content: "content" }));
  const isLayer = async (path: string) => {
    const found = await lstat(path);
    return found.isFile() && found.size === layer.sizeBytes && (await readFile(path)).includes(`file-${at}`);
  };
  const paths = await filesBelow(join(cells.rig.directory, "store"));
  for (const path of paths) {
    if (!(await isLayer(path))) continue;
    const file = await open(path, "r+");
    await file.write(Buffer.from("F"), 0, 1, at).finally(() => file.close());
  }
  await expect(clone(layer)).rejects.toMatchObject({ code: "CheckpointLost" });
});

const write = `import ctypes, os, shutil, socket, sys
os.makedirs("/data")
for name, kind in (("memory", 0o020000), ("disk", 0o060000)):
    try: os.mknod("/data/" + name, kind | 0o666, os.makedev(1, 1))
    except OSError: pass
os.mkfifo("/data/fifo")
socket.socket(socket.AF_UNIX).bind("/data/socket")
shutil.copy(sys.executable, "/data/as-root")
os.chmod("/data/as-root", 0o4755)
shutil.copy(sys.executable, "/data/capable")
try: os.setxattr("/data/capable", "security.capability", bytes([1, 0, 0, 2, 0x80, 0, 0, 0] + [0] * 12))
except OSError: pass
os.link("/data/as-root", "/data/hard")
os.symlink("../../../../../../etc/hostname", "/data/up")
os.rename("/usr/share", "/data/share")
print("written")`;
const probe = `import os, subprocess
def run(program):
    return subprocess.run([program, "-c", "import os; print(os.geteuid())"], user=1000, group=1000, capture_output=True, text=True).stdout.strip()
def attribute(path):
    try: return os.getxattr(path, "security.capability").hex()
    except OSError as e: return e.errno
names = [name for name in sorted(os.listdir("/data")) if name not in ("memory", "disk")]
print(names, run("/data/as-root"), run("/data/hard"), run("/data/capable"), attribute("/data/capable"),
  os.stat("/data/hard").st_ino == os.stat("/data/as-root").st_ino, os.path.exists("/usr/share"), os.stat("/data/fifo").st_mode, os.stat("/data/socket").st_mode)`;

it("of set-uid programs, capabilities and links works in a clone as in its source", async () => {
  const source = await cells.boot({ name: "source", container });
  onTestFinished(() => {
    source.process.kill("SIGTERM");
  });
  expect(await cells.python(source, write)).toBe("written");
  const grant = await cells.writeGrant("special");
  const request = { grant, contents: ["filesystem" as const], keepRunning: true, asLayer: true as const };
  const { manifestDigest, sizeBytes } = await cells.client.checkpoint(source.address, request);
  const { cell } = await clone({ checkpointId: "special", manifestDigest, sizeBytes });
  expect(await cells.python(cell, probe)).toBe(await cells.python(source, probe));
  expect(await cells.python(cell, `print(open("/data/up").read().strip())`)).toBe(cell.identity.hostname);
  // The layer says what it lacks. Not every platform lets a program make devices.
  const devices = `import os; print(*("/data/" + name for name in ("disk", "memory") if os.path.exists("/data/" + name)))`;
  const names = (await cells.python(source, devices)).split(" ").filter(Boolean);
  const manifest = await cells.store.manifest({ namespace, checkpointId: "special", digest: manifestDigest });
  expect(manifest.leftOut).toEqual(names.length === 0 ? undefined : { count: names.length, names });
  expect(await cells.python(cell, devices)).toBe("");
});

it("with a file of a terabyte, which is empty, is refused before it is stored", async () => {
  const source = await cells.boot({ name: "sparse", container });
  onTestFinished(() => {
    source.process.kill("SIGTERM");
  });
  await cells.python(source, `open("/sparse", "wb").truncate(1 << 40)`);
  const grant = await cells.writeGrant("sparse");
  const request = {
    grant,
    contents: ["filesystem" as const],
    keepRunning: true,
    asLayer: true as const,
    maxBytes: 64 << 20,
  };
  await expect(cells.client.checkpoint(source.address, request)).rejects.toMatchObject({ code: "QuotaExceeded" });
  expect(await cells.store.find({ namespace, checkpointId: "sparse" })).toBeUndefined();
  expect(await cells.python(source, `print("runs")`)).toBe("runs");
});
