import { lstat, readlink } from "node:fs/promises";
import { join, sep } from "node:path";

/**
 * Follows a path the way a process whose root is `root` would: absolute links begin at `root`, and `..` does not lead out
 * of it. Returns the folder that it ends at, with no link left in it, or nothing if it does not end at a folder.
 */
export async function folderInside(root: string, path: string): Promise<string | undefined> {
  const left = path.slice(root.length).split(sep);
  const at: string[] = [];
  // As many links as Linux itself follows (path_resolution(7)).
  for (let links = 0; left.length > 0;) {
    const name = left.shift();
    if (name === undefined || name === "" || name === ".") continue;
    if (name === "..") {
      at.pop();
      continue;
    }
    const found = await lstat(join(root, ...at, name)).catch(() => undefined);
    if (found?.isSymbolicLink() === true) {
      links += 1;
      if (links > 40) return undefined;
      const target = await readlink(join(root, ...at, name));
      if (target.startsWith(sep)) at.length = 0;
      left.unshift(...target.split(sep));
    } else if (found?.isDirectory() === true) at.push(name);
    else return undefined;
  }
  return join(root, ...at);
}
