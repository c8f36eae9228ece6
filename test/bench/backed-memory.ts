import { execFile } from "node:child_process";
import { mkdtemp, open, rm, rmdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const chunk = Buffer.alloc(2 << 20, 1);

/**
 * Touches this much memory, in huge pages, and frees it immediately. A virtual machine may return memory to its host after it was
 * free for a second (free page reporting of virtio-balloon). Touching such memory takes 2 to 2.8 s for 1 GiB instead of 0.12 s, on
 * the machine of docs/reference/performance.md, so a side that reuses freshly freed memory would seem faster. Needs root.
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
