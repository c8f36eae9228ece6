import { constants } from "node:fs";
import { open, rm, statfs } from "node:fs/promises";
import { join } from "node:path";
import { RametError } from "../../base/errors.ts";
import type { ContainerMemory } from "../cgroup/container-memory.ts";
import { inQuantity } from "../cgroup/plan.ts";

/** How gVisor writes the pages of a memory image: through the page cache, or past it. */
export type PageWrites = "cached" | "direct";

export interface CaptureState {
  /** The memory limit that the sandbox shares with its cell. Undefined: none. */
  limitBytes: number | undefined;
  /** How much of it is in use and cannot be reclaimed. */
  usedBytes: number;
  /** The sandbox's memory and files, as far as they are captured: what the capture writes, at most. */
  writtenBytes: number;
  /** Whether the file system of the image accepts writes past the page cache. One in memory does not. */
  acceptsDirect: boolean;
}

/** The memory that a capture needs besides the image: the `runsc` command, gVisor's and the cell's buffers. Measured: 25 to 45 MiB. */
const reserveBytes = 48 * 1024 ** 2;

/**
 * Decides how to write a capture. Pages in the page cache are charged to the container's limit, also after gVisor has left the
 * sandbox's own group, and near the limit the kernel kills the sandbox for them.
 * @returns the error if the capture would harm the sandbox
 */
export function planCapture(state: CaptureState): PageWrites | RametError {
  const { limitBytes, usedBytes, writtenBytes, acceptsDirect } = state;
  if (limitBytes === undefined) return "cached";
  const roomBytes = limitBytes - usedBytes;
  if (roomBytes >= writtenBytes + reserveBytes) return "cached";
  if (acceptsDirect && roomBytes >= reserveBytes) return "direct";
  const neededBytes = reserveBytes + (acceptsDirect ? 0 : writtenBytes);
  const [room, needed, limit] = [roomBytes, neededBytes, limitBytes].map((bytes) => inQuantity(toMebibytes(bytes)));
  return new RametError(
    "CaptureRefused",
    `capturing the sandbox was refused: it can need ${needed} of memory, and ${room} of the container's ${limit} are free`,
    {
      hint: `Raise the container's resources.limits.memory, ${
        acceptsDirect
          ? "or free memory in the sandbox"
          : "or keep the checkpoint's files on a disk instead of in memory"
      }`,
    },
  );
}

function toMebibytes(bytes: number): number {
  return Math.max(0, Math.round(bytes / 1024 ** 2)) * 1024 ** 2;
}

/** @throws RametError `CaptureRefused` if the capture would harm the sandbox */
export async function pageWritesFor(
  container: ContainerMemory | undefined,
  { memory, writtenBytes, imagePath }: { memory: boolean; writtenBytes: number; imagePath: string },
): Promise<PageWrites> {
  if (container === undefined) return "cached";
  const { limitBytes, usedBytes, sandboxBytes } = container;
  const state = { limitBytes, usedBytes, writtenBytes: (memory ? sandboxBytes : 0) + writtenBytes };
  if (planCapture({ ...state, acceptsDirect: false }) === "cached") return "cached";
  const decision = planCapture({ ...state, acceptsDirect: await acceptsDirect(imagePath) });
  if (decision instanceof RametError) throw decision;
  return decision;
}

/** From linux/magic.h. Recent kernels accept O_DIRECT for it, and the pages stay in memory. */
const tmpfs = 0x01021994;

async function acceptsDirect(directory: string): Promise<boolean> {
  if ((await statfs(directory)).type === tmpfs) return false;
  const path = join(directory, "direct");
  try {
    const flags = constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY | constants.O_DIRECT;
    await (await open(path, flags, 0o600)).close();
    return true;
  } catch {
    return false;
  } finally {
    await rm(path, { force: true });
  }
}
