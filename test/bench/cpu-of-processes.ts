import { readFile } from "node:fs/promises";

/** Clock ticks of proc_pid_stat(5). */
const ticksPerSecond = 100;

/** Fields of proc_pid_stat(5), from the one after the name: user and system time of the process, and of its children that have ended. */
const ownFields = [11, 12];
const withEndedFields = [...ownFields, 13, 14];

/** User and system time of these processes. One that has ended counts as 0. */
export function cpuSecondsOf(pids: readonly number[]): Promise<number> {
  return cpuSeconds(pids, ownFields);
}

/** As `cpuSecondsOf`, with the processes that they started and that have ended. */
export function cpuSecondsWithEnded(pids: readonly number[]): Promise<number> {
  return cpuSeconds(pids, withEndedFields);
}

async function cpuSeconds(pids: readonly number[], counted: readonly number[]): Promise<number> {
  const ticks = await Promise.all(pids.map((pid) => cpuTicks(pid, counted)));
  return ticks.reduce((sum, value) => sum + value, 0) / ticksPerSecond;
}

async function cpuTicks(pid: number, counted: readonly number[]): Promise<number> {
  const line = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => undefined);
  if (line === undefined) return 0;
  const fields = line.slice(line.lastIndexOf(")") + 2).split(" ");
  return counted.reduce((sum, field) => sum + Number(fields[field]), 0);
}
