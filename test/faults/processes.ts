import { readFileSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";

export interface FoundProcess {
  pid: number;
  commandLine: string;
}

/** Finds the processes, other than this one, whose command line contains all parts. Kill them only by their pid. */
export async function processesWith(...parts: string[]): Promise<FoundProcess[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name)).map(Number);
  const found = await Promise.all(
    pids.map(async (pid) => {
      const text = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
      return { pid, commandLine: text.replaceAll("\0", " ").trim() };
    }),
  );
  return found.filter(
    ({ pid, commandLine }) => pid !== process.pid && parts.every((part) => commandLine.includes(part)),
  );
}

/** Returns the program and its arguments, or an empty list for a process that has ended. */
export function commandLineOf(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").slice(0, -1);
  } catch {
    return [];
  }
}

/** Sends SIGKILL. Ignores a process that has already ended. */
export function killNow(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** Returns all descendants of a process, also across PID namespaces. */
export async function descendants(pid: number): Promise<FoundProcess[]> {
  const all = await processesWith();
  const parents = new Map<number, number>();
  for (const one of all) {
    const status = await readFile(`/proc/${one.pid}/status`, "utf8").catch(() => "");
    parents.set(one.pid, Number(/^PPid:\s+(\d+)/m.exec(status)?.[1] ?? 0));
  }
  const isBelow = (one: number): boolean => {
    const parent = parents.get(one);
    return parent !== undefined && parent !== 0 && (parent === pid || isBelow(parent));
  };
  return all.filter((one) => isBelow(one.pid));
}
