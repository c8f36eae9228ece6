import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

/** 16 hex digits that change with any file that a Go module's programs are built from, and with `how`; its tests do not count. */
export async function sourceDigest(module: string, how = ""): Promise<string> {
  const entries = await readdir(module, { recursive: true, withFileTypes: true });
  const paths = entries
    .filter((entry) => entry.isFile() && isSource(entry.name))
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
  const hash = createHash("sha256").update(how);
  for (const path of paths) {
    const content = await readFile(path);
    hash.update(`${path.slice(module.length)}\0${content.length}\0`).update(content);
  }
  return hash.digest("hex").slice(0, 16);
}

function isSource(name: string): boolean {
  if (name.endsWith("_test.go")) return false;
  return /\.(go|s)$/.test(name) || name === "go.mod" || name === "go.sum";
}
