import type { Stats } from "node:fs";
import { chmod, chown, lstat, mkdir, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { RametError } from "../../base/errors.ts";
import { folderInside } from "./directory-inside.ts";
import { isRoot } from "./unpack-tar.ts";

/**
 * Moves an unpacked layer over the root that the layers below it made, by the rules of OCI's image-spec (layer.md):
 * `.wh.NAME` takes NAME away, `.wh..wh..opq` takes away everything in that folder, folders are merged, anything else
 * replaces what was there. A link to a folder stays one: a layer's `lib/x` goes where `lib` leads, and never out of the
 * root.
 */
export async function mergeLayer(layer: string, root: string): Promise<void> {
  await mergeFolder(layer, root, root);
}

const opaque = ".wh..wh..opq";
const whiteout = ".wh.";

async function mergeFolder(layer: string, target: string, root: string): Promise<void> {
  const names = await readdir(layer);
  if (names.includes(opaque)) await empty(target);
  for (const name of names.filter((each) => each.startsWith(whiteout) && each !== opaque)) {
    await rm(join(target, hiddenName(name)), { recursive: true, force: true });
  }
  for (const name of names.filter((each) => !each.startsWith(whiteout))) {
    await mergeEntry(join(layer, name), join(target, name), root);
  }
}

async function mergeEntry(source: string, target: string, root: string): Promise<void> {
  const added = await lstat(source);
  const there = await lstat(target).catch(() => undefined);
  if (!added.isDirectory()) {
    if (there !== undefined) await rm(target, { recursive: true });
    await rename(source, target);
    return;
  }
  const linked = there?.isSymbolicLink() === true ? await folderInside(root, target) : undefined;
  if (linked !== undefined) {
    await mergeFolder(source, linked, root);
    return;
  }
  if (there?.isDirectory() !== true) {
    if (there !== undefined) await rm(target);
    await mkdir(target);
  }
  await mergeFolder(source, target, root);
  await takeOver(added, target);
}

function hiddenName(name: string): string {
  const hidden = name.slice(whiteout.length);
  if (hidden !== "" && hidden !== "." && hidden !== "..") return hidden;
  throw new RametError("InvalidArgument", `The image has a layer with the illegal whiteout ${name}`);
}

async function takeOver(from: Stats, target: string): Promise<void> {
  if (isRoot()) await chown(target, from.uid, from.gid);
  await chmod(target, from.mode & 0o7777);
}

async function empty(folder: string): Promise<void> {
  for (const name of await readdir(folder)) await rm(join(folder, name), { recursive: true });
}
