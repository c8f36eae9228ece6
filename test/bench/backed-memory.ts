import { execFile } from "node:child_process";
import { mkdtemp, open, rm, rmdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const chunk = Buffer.alloc(2 << 20, 1);

/**
 * Touches so much memory, in huge pages, and gives it back at once. A virtual machine may return to its host what has been free for a
 * second (free page reporting of virtio-balloon), and what is touched then is fetched from there: 2 to 2.8 s for 1 GiB in place of 0.12,
 * on the machine of docs/reference/performance.md. Whoever happens to get what was freed a moment ago would be ahead by that. Needs root.
 */
export async function backMemory(bytes: number): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), "ramet-backed-"));
  await run("mount", ["-t", "tmpfs", "-o", `size=${bytes},huge=always`, "ramet-bench", directory]);
  try {
    await fill(join(directory, "memory"), bytes);
  } finally {
    await run("umount", [directory]);
    await rmdir(directory);
  }
}

async function fill(path: string, bytes: number): Promise<void> {
  const file = await open(path, "w");
  try {
    for (let written = 0; written < bytes; written += chunk.length) await file.write(chunk);
  } finally {
    await file.close();
    await rm(path);
  }
}
