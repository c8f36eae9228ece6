import { readFile } from "node:fs/promises";

/** Clock ticks of proc_pid_stat(5). */
const ticksPerSecond = 100;

/** User and system time of these processes, `withEnded` also of their children that have ended. One that has ended counts as 0. */
export async function cpuSecondsOf(pids: readonly number[], { withEnded = false } = {}): Promise<number> {
  const ticks = await Promise.all(pids.map((pid) => cpuTicks(pid, withEnded)));
  return ticks.reduce((sum, value) => sum + value, 0) / ticksPerSecond;
}

async function cpuTicks(pid: number, withEnded: boolean): Promise<number> {
  const line = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => undefined);
  if (line === undefined) return 0;
  const fields = line.slice(line.lastIndexOf(")") + 2).split(" ");
  return fields.slice(11, withEnded ? 15 : 13).reduce((sum, value) => sum + Number(value), 0);
}
