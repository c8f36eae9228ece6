import { rm, readdir } from "node:fs/promises";
import { delay, type Clock } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";
import type { ClusterDirectory } from "./cluster-directory.ts";
import { isSupervised, readStatus, writeStatus } from "./cluster-status.ts";
import { exists } from "./files.ts";
import { isProcessRunning, type ProcessIdentity, signalProcess, untilEnded } from "../base/process-identity.ts";
import { withLock } from "./tools/lock.ts";
import { sweepCgroups } from "../cell/cgroup/record.ts";
import { PodDirectory } from "./node/pod-directory.ts";
import { podProcesses } from "./node/launch-pod.ts";

export interface DownOptions {
  directory: ClusterDirectory;
  clock: Clock;
  signal: AbortSignal;
  /** Whether to remove the cluster's data: objects, checkpoints, logs. */
  purge: boolean;
}

/** How long the supervisor may take to stop everything before it is killed. */
const graceMilliseconds = 45_000;

/**
 * Stops all processes of a cluster. With `purge`, also removes its data.
 * @returns whether a process was stopped
 */
export async function stopCluster({ directory, clock, signal, purge }: DownOptions): Promise<{ wasUp: boolean }> {
  if (!(await exists(directory.path))) return { wasUp: false };
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

export async function stopSupervisor(supervisor: ProcessIdentity, clock: Clock): Promise<void> {
  signalProcess(supervisor, "SIGTERM");
  const deadline = clock.monotonicMilliseconds() + graceMilliseconds;
  while (isProcessRunning(supervisor)) {
    if (clock.monotonicMilliseconds() > deadline) signalProcess(supervisor, "SIGKILL");
    await delay(clock, 25);
  }
}

/**
 * Kills processes that a killed supervisor left running, and returns their number. Parts end with their supervisor if
 * `setpriv` is installed; Pods do not.
 * @param options.pods whether to kill Pods too. Without it, the next node adopts them
 */
export async function killOrphans(
  directory: ClusterDirectory,
  { pods, clock }: { pods: boolean; clock: Clock },
): Promise<number> {
  const parts =
    readStatus(directory.status)?.parts.flatMap(({ process }) => (process === undefined ? [] : [process])) ?? [];
  const recorded = [...parts, ...(pods ? podProcesses(directory.pods).map(({ process }) => process) : [])];
  const running = recorded.filter(isProcessRunning);
  for (const process of running) signalProcess(process, "SIGKILL");
  for (const process of running) await untilEnded(process, clock);
  if (pods) await removePods(directory.pods);
  return running.length;
}

async function removePods(pods: string): Promise<void> {
  const uids = await readdir(pods).catch(() => []);
  for (const uid of uids) await sweepCgroups(new PodDirectory(pods, uid).cell);
  await rm(pods, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 });
}
