import { readFile } from "node:fs/promises";
import { cellAmong } from "../bench/pod-family.ts";
import { descendants } from "../faults/processes.ts";
import type { RunningCell } from "../setup/cell-rig.ts";

/** The PID of the cell's own process, which runs Node. */
export async function cellPid({ process: { pid = 0 } }: RunningCell): Promise<number> {
  const cell = cellAmong(await descendants(pid));
  if (cell === undefined) throw new Error("the cell's process was not found");
  return cell.pid;
}

/** The most memory that the process has had, in MiB. */
export async function peakMebibytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  return Number(/^VmHWM:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024;
}
