import { lstat, readlink } from "node:fs/promises";
import { join, sep } from "node:path";

/**
 * Resolves a path as a process with the root directory `root` would: absolute links start at `root`, and `..` does not leave
 * it. Returns the directory without links, or undefined if the path does not lead to a directory.
 */
export async function directoryInside(root: string, path: string): Promise<string | undefined> {
  const remaining = path.slice(root.length).split(sep);
  const at: string[] = [];
  // Linux follows at most 40 links (path_resolution(7)).
  for (let links = 0; remaining.length > 0;) {
    const name = remaining.shift();
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
      remaining.unshift(...target.split(sep));
    } else if (found?.isDirectory() === true) at.push(name);
    else return undefined;
  }
  return join(root, ...at);
}
