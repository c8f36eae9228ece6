import { readdirSync, readFileSync } from "node:fs";
import { identifyProcess, type ProcessIdentity, signalProcess } from "../process-identity.ts";

/** Environment variable of every process of a Pod: the Pod's directory on the machine. */
export const podDirectoryVariable = "RAMET_POD_FOLDER";

/**
 * Finds the processes of Pods in this directory by their environment, including those without a record after a crash: the
 * outer process of each Pod, and its children with the same environment.
 */
export function podProcesses(pods: string): { name: string; process: ProcessIdentity }[] {
  const prefix = `${podDirectoryVariable}=${pods}/`;
  return readdirSync("/proc").flatMap((entry) => {
    const pid = Number(entry);
    if (!Number.isInteger(pid)) return [];
    const variable = environmentOf(pid).find((text) => text.startsWith(prefix));
    const process = variable === undefined ? undefined : identifyProcess(pid);
    const name = variable?.slice(prefix.length);
    return process === undefined || name === undefined ? [] : [{ name, process }];
  });
}

/** Kills the processes of a Pod and of its further containers, whose directories are below the Pod's. */
export function killPod(pods: string, uid: string): void {
  for (const { name, process } of podProcesses(pods))
    if (name === uid || name.startsWith(`${uid}/`)) signalProcess(process, "SIGKILL");
}

function environmentOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/environ`, "latin1").split("\0");
  } catch {
    // It has ended, or belongs to another user.
    return [];
  }
}
