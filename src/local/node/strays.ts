import { readdirSync, readFileSync } from "node:fs";
import { identifyProcess, type ProcessIdentity } from "../process-identity.ts";

/**
 * Processes of Pods in this folder, by their environment: also those of which a crash left no record. Found are the
 * outer process of each Pod and what it started with its own environment.
 */
export function podProcesses(pods: string): { uid: string; process: ProcessIdentity }[] {
  const prefix = `RAMET_CELL_DIRECTORY=${pods}/`;
  return readdirSync("/proc").flatMap((entry) => {
    const pid = Number(entry);
    if (!Number.isInteger(pid)) return [];
    const variable = environmentOf(pid).find((text) => text.startsWith(prefix));
    const process = variable === undefined ? undefined : identifyProcess(pid);
    const uid = variable?.slice(prefix.length).split("/")[0];
    return process === undefined || uid === undefined ? [] : [{ uid, process }];
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
