import { createHash, type Hash } from "node:crypto";
import { createReadStream } from "node:fs";
import { lstat, readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";

/** `sha256:` of everything that a program can see of a tree, except times: names, kinds, modes, owners and content. */
export async function treeDigest(root: string, signal?: AbortSignal): Promise<string> {
  const hash = createHash("sha256");
  await addFolder(hash, root, "", signal);
  return `sha256:${hash.digest("hex")}`;
}

const readWholeBytes = 1 << 20;

async function addFolder(hash: Hash, root: string, folder: string, signal: AbortSignal | undefined): Promise<void> {
  signal?.throwIfAborted();
  const names = (await readdir(join(root, folder))).sort();
  for (const name of names) {
    const relative = `${folder}/${name}`;
    const path = join(root, relative);
    const found = await lstat(path);
    hash.update(`${relative}\0${found.mode.toString(8)}\0${found.uid}:${found.gid}\0`);
    if (found.isDirectory()) await addFolder(hash, root, relative, signal);
    else if (found.isSymbolicLink()) hash.update(`${await readlink(path)}\0`);
    else if (found.isFile()) {
      hash.update(`${found.size}\0`);
      if (found.size <= readWholeBytes) hash.update(await readFile(path));
      else for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
    }
  }
}
