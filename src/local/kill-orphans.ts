import { readdir, rm } from "node:fs/promises";
import { sweepCgroups } from "../cell/cgroup/record.ts";
import { delay, type Clock } from "../base/clock.ts";
import type { ClusterDirectory } from "./cluster-directory.ts";
import { readStatus } from "./cluster-status.ts";
import { PodDirectory } from "./node/pod-directory.ts";
import { podProcesses } from "./node/orphans.ts";
import { isProcessRunning, signalProcess, type ProcessIdentity } from "./process-identity.ts";

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

async function untilEnded(process: ProcessIdentity, clock: Clock): Promise<void> {
  while (isProcessRunning(process)) await delay(clock, 10);
}
