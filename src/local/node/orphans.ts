import { readdirSync, readFileSync } from "node:fs";
import { identifyProcess, type ProcessIdentity } from "../process-identity.ts";

/** The variable by which every process of a Pod can be told: the Pod's directory on the machine. */
export const podDirectoryVariable = "RAMET_POD_FOLDER";

/**
 * Processes of Pods in this directory, by the name of the directory in their environment: also those of which a crash left no
 * record. Found are the outer process of each Pod and what it started with its own environment.
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

function environmentOf(pid: number): string[] {
  try {
    return readFileSync(`/proc/${pid}/environ`, "latin1").split("\0");
  } catch {
    // It has ended, or belongs to somebody else.
    return [];
  }
}
