import { readdir, readFile } from "node:fs/promises";
import { identifyProcess } from "../../src/base/process-identity.ts";
import type { RunningCell } from "./cell-rig.ts";

/** Returns gVisor's processes for the sandboxes of a cell, the oldest first. */
export function sentries({ directory }: RunningCell): Promise<number[]> {
  return processesOf((line) => line.startsWith("runsc-sandbox") && line.includes(directory));
}

/** Returns gVisor's restore commands that were started early and wait for a checkpoint. */
export function heldRestores({ directory }: RunningCell): Promise<number[]> {
  return processesOf((line) => line.includes("\0restore\0") && line.includes(directory));
}

/** Returns the processes with such a command line, the oldest first. */
export async function processesOf(isWanted: (commandLine: string) => boolean): Promise<number[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const lines = await Promise.all(pids.map((pid) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "")));
  const wanted = pids.filter((_, at) => isWanted(lines[at] ?? "")).map(Number);
  // The ids of processes begin again at their end, so they do not tell which one is older.
  const startedAt = (pid: number): number => Number(identifyProcess(pid)?.startedAt);
  return wanted.sort((a, b) => startedAt(a) - startedAt(b));
}
