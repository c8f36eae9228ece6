import { rm, stat } from "node:fs/promises";
import { delay, type Clock } from "../base/clock.ts";
import type { ClusterDirectory } from "./cluster-directory.ts";
import { isSupervised, readStatus, writeStatus } from "./cluster-status.ts";
import { endOrphans } from "./end-orphans.ts";
import { isProcessRunning, signalProcess, type ProcessIdentity } from "./process-identity.ts";
import { withLock } from "./tools/lock.ts";

export interface DownOptions {
  directory: ClusterDirectory;
  clock: Clock;
  signal: AbortSignal;
  /** Removes all that the cluster kept: objects, checkpoints, logs. */
  purge: boolean;
}

export interface DownResult {
  /** Whether there was something to end. */
  wasUp: boolean;
}

/** How long everything together may take to end before it is killed. */
const patienceMilliseconds = 45_000;

/** Ends a cluster and everything in it. Nothing of it is left running, and with `purge` nothing of it at all. */
export async function stopCluster({ directory, clock, signal, purge }: DownOptions): Promise<DownResult> {
  const exists = await stat(directory.path).then(
    () => true,
    () => false,
  );
  if (!exists) return { wasUp: false };
  const wasUp = await withLock(directory.lock, { clock, signal }, async () => {
    const status = readStatus(directory.status);
    const supervised = isSupervised(status);
    if (supervised) await endSupervisor(status.supervisor, clock);
    const left = await endOrphans(directory, { pods: true, clock });
    const after = readStatus(directory.status);
    if (after !== undefined && after.phase !== "down")
      writeStatus(directory.status, { ...after, phase: "down", parts: [] });
    return supervised || left > 0;
  });
  if (purge) await rm(directory.path, { recursive: true, force: true });
  return { wasUp };
}

async function endSupervisor(supervisor: ProcessIdentity, clock: Clock): Promise<void> {
  signalProcess(supervisor, "SIGTERM");
  const deadline = clock.monotonicMilliseconds() + patienceMilliseconds;
  while (isProcessRunning(supervisor)) {
    if (clock.monotonicMilliseconds() > deadline) signalProcess(supervisor, "SIGKILL");
    await delay(clock, 25);
  }
}
