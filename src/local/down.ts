import { rm, stat } from "node:fs/promises";
import { delay, type Clock } from "../base/clock.ts";
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
  if (purge) await rm(directory.path, { recursive: true, force: true });
  return { wasUp };
}

async function stopSupervisor(supervisor: ProcessIdentity, clock: Clock): Promise<void> {
  signalProcess(supervisor, "SIGTERM");
  const deadline = clock.monotonicMilliseconds() + graceMilliseconds;
  while (isProcessRunning(supervisor)) {
    if (clock.monotonicMilliseconds() > deadline) signalProcess(supervisor, "SIGKILL");
    await delay(clock, 25);
  }
}
