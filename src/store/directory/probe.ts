import { randomBytes } from "node:crypto";
import { link, rm, statfs } from "node:fs/promises";
import { join } from "node:path";
import { RametError } from "../../base/errors.ts";
import type { StoreHealth } from "../checkpoint-store.ts";
import { roomHint, storeError } from "../store-error.ts";
import { syncFolders, writeDurably } from "./durable.ts";
import { rootProblem } from "./root.ts";

/** Tries on the store's root all that a publication needs: room, a durable write, a hard link. */
export async function probeStore(root: string, minimumFreeBytes: number): Promise<StoreHealth> {
  const missing = await rootProblem(root);
  if (missing !== undefined) return { problem: missing };
  try {
    await tryWrite(root);
    const { bavail, bsize } = await statfs(root);
    const freeBytes = bavail * bsize;
    if (freeBytes >= minimumFreeBytes) return { freeBytes };
    return { freeBytes, problem: nearlyFull(root, freeBytes, minimumFreeBytes) };
  } catch (error) {
    return { problem: storeError(error, `writing to the store ${root}`) };
  }
}

async function tryWrite(root: string): Promise<void> {
  const path = join(root, `.probe.${randomBytes(8).toString("hex")}`);
  try {
    await writeDurably(path, Buffer.alloc(4096));
    await link(path, `${path}.link`);
    await syncFolders([root]);
  } finally {
    await rm(path, { force: true });
    await rm(`${path}.link`, { force: true });
  }
}

function nearlyFull(root: string, freeBytes: number, minimumFreeBytes: number): RametError {
  return new RametError(
    "StoreFull",
    `store ${root} is nearly full: ${freeBytes} bytes left, wanted are ${minimumFreeBytes}`,
    {
      hint: roomHint,
    },
  );
}
