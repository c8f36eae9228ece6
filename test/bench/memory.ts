import { readFile } from "node:fs/promises";

/** Resident memory in MiB. `pss` divides shared memory among its processes; `rss` counts it for each. */
export interface Memory {
  what: string;
  processes: number;
  rssMiB: number;
  pssMiB: number;
  goalMiB?: number;
}

export async function memoryOf(what: string, pids: readonly number[]): Promise<Memory> {
  let rss = 0;
  let pss = 0;
  for (const pid of pids) {
    const text = await readFile(`/proc/${pid}/smaps_rollup`, "utf8").catch(() => "");
    rss += Number(/^Rss:\s+(\d+)/m.exec(text)?.[1] ?? 0) / 1024;
    pss += Number(/^Pss:\s+(\d+)/m.exec(text)?.[1] ?? 0) / 1024;
  }
  return { what, processes: pids.length, rssMiB: rss, pssMiB: pss };
}
