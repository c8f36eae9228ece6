import { rm, stat } from "node:fs/promises";
import { delay, type Clock } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";
import type { ClusterDirectory } from "./cluster-directory.ts";
import { isSupervised, readStatus, writeStatus } from "./cluster-status.ts";
import { killOrphans } from "./kill-orphans.ts";
import { isProcessRunning, signalProcess, type ProcessIdentity } from "./process-identity.ts";
import { withLock } from "./tools/lock.ts";

export interface DownOptions {
  directory: ClusterDirectory;
  clock: Clock;
  signal: AbortSignal;
  /** Whether to remove the cluster's data: objects, checkpoints, logs. */
  purge: boolean;
}

export interface DownResult {
  /** Whether a process was stopped. */
  wasUp: boolean;
}

/** How long the supervisor may take to stop everything before it is killed. */
const graceMilliseconds = 45_000;

/** Stops all processes of a cluster. With `purge`, also removes its data. */
export async function stopCluster({ directory, clock, signal, purge }: DownOptions): Promise<DownResult> {
  const exists = await stat(directory.path).then(
    () => true,
    () => false,
  );
  if (!exists) return { wasUp: false };
  const wasUp = await withLock(directory.lock, { clock, signal }, async () => {
    const status = readStatus(directory.status);
    const supervised = isSupervised(status);
    if (supervised) await stopSupervisor(status.supervisor, clock);
    const orphans = await killOrphans(directory, { pods: true, clock });
    const after = readStatus(directory.status);
    if (after !== undefined && after.phase !== "down")
      writeStatus(directory.status, { ...after, phase: "down", parts: [] });
    return supervised || orphans > 0;
  });
  if (purge) await purgeData(directory.path);
  return { wasUp };
}

async function purgeData(path: string): Promise<void> {
  try {
    await rm(path, { recursive: true, force: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EBUSY") throw error;
    const mounted = (error as NodeJS.ErrnoException).path ?? path;
    throw new RametError("Conflict", `Cannot remove ${mounted}: a file system is mounted there`, {
      hint: `Unmount it, then repeat the command: umount ${mounted}`,
      cause: error,
    });
  }
}

async function stopSupervisor(supervisor: ProcessIdentity, clock: Clock): Promise<void> {
  signalProcess(supervisor, "SIGTERM");
  const deadline = clock.monotonicMilliseconds() + graceMilliseconds;
  while (isProcessRunning(supervisor)) {
    if (clock.monotonicMilliseconds() > deadline) signalProcess(supervisor, "SIGKILL");
    await delay(clock, 25);
  }
}
