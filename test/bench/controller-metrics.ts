import { readFile } from "node:fs/promises";

/** Counters of a Prometheus page, by name and labels as printed there. */
export type Counters = ReadonlyMap<string, number>;

/** Reads the controller's counters. Its port is in its command line. */
export async function controllerCounters(pid: number): Promise<Counters> {
  const commandLine = (await readFile(`/proc/${pid}/cmdline`, "utf8")).split("\0");
  const port = commandLine[commandLine.indexOf("--metrics-port") + 1] ?? "";
  const page = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const lines = page.split("\n").flatMap((line) => {
    const found = /^(\w+(?:\{.*\})?) (\S+)$/.exec(line);
    return found === null ? [] : [[found[1] ?? "", Number(found[2])] as const];
  });
  return new Map(lines);
}

/** The changes of the counters of this name between two readings. */
export function countedBetween(before: Counters, after: Counters, name: string): Map<string, number> {
  const changed = [...after].flatMap(([key, value]) => {
    const more = value - (before.get(key) ?? 0);
    return key.startsWith(`${name}{`) && more !== 0 ? [[key.slice(name.length + 1, -1), more] as const] : [];
  });
  return new Map(changed);
}
