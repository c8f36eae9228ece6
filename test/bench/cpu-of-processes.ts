import { readFile } from "node:fs/promises";

/** Clock ticks of proc_pid_stat(5). */
const ticksPerSecond = 100;

/** User and system time of these processes. One that has ended counts as 0. */
export async function cpuSecondsOf(pids: readonly number[]): Promise<number> {
  const ticks = await Promise.all(pids.map(cpuTicks));
  return ticks.reduce((sum, value) => sum + value, 0) / ticksPerSecond;
}

async function cpuTicks(pid: number): Promise<number> {
  const line = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => undefined);
  if (line === undefined) return 0;
  const fields = line.slice(line.lastIndexOf(")") + 2).split(" ");
  return Number(fields[11]) + Number(fields[12]);
}
