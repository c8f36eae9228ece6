import { open, rename } from "node:fs/promises";
import { dirname } from "node:path";

/** Replaces a file: after a crash it has the old or the new content. */
export async function replaceFile(path: string, text: string): Promise<void> {
  const next = `${path}.new`;
  const file = await open(next, "w", 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
  await renameDurably(next, path);
}

/** Renames within one file system. When it returns, the rename survives a power failure. */
export async function renameDurably(from: string, to: string): Promise<void> {
  await rename(from, to);
  for (const parent of new Set([dirname(from), dirname(to)])) {
    const directory = await open(parent);
    try {
      await directory.sync();
    } finally {
      await directory.close();
    }
  }
}
