import { readFile } from "node:fs/promises";
import { runInSandbox } from "./in-sandbox.ts";
import { partNames, type LocalCluster } from "./local-cluster.ts";
import { podFamily } from "./pod-family.ts";

/** Resident memory in MiB. `pss` shares out what several processes map alike; `rss` counts it for each. */
export interface Memory {
  what: string;
  processes: number;
  rssMiB: number;
  pssMiB: number;
  goalMiB?: number;
}

/** Memory when nothing happens: the cluster's parts, and one sandbox's processes by what they are. */
export async function memoryAtRest(cluster: LocalCluster): Promise<Memory[]> {
  const sandbox = await cluster.createSandbox({ name: "at-rest" });
  // What a start leaves behind is given back within seconds.
  await new Promise((resolve) => setTimeout(resolve, 5_000));
  const parts = await Promise.all(
    partNames.map(async (name) => {
      const pid = cluster.part(name);
      const goal = name === "controller" ? { goalMiB: 120 } : {};
      return { ...(await memoryOf(name, pid === undefined ? [] : [pid])), ...goal };
    }),
  );
  const family = await podFamily(cluster, "at-rest");
  const pids = (belongs: (commandLine: string) => boolean): number[] =>
    family.filter(({ commandLine }) => belongs(commandLine)).map(({ pid }) => pid);
  // gVisor's helpers for the sandbox's address spaces have no command line.
  const engine = pids((line) => line === "" || line.startsWith("runsc-"));
  const link = pids((line) => line.includes("ramet-link") && !line.startsWith("runsc-"));
  const cells = family.map(({ pid }) => pid).filter((pid) => !engine.includes(pid) && !link.includes(pid));
  const guest = await runInSandbox(cluster, sandbox, "grep VmRSS /proc/1/status");
  const guestMiB = Number(/(\d+) kB/.exec(guest)?.[1] ?? Number.NaN) / 1024;
  const memory = [
    ...parts,
    { ...(await memoryOf("cell", cells)), goalMiB: 60 },
    await memoryOf("link", link),
    await memoryOf("gVisor (with the Python workload in it)", engine),
    { what: "guest, as the sandbox's kernel says", processes: 1, rssMiB: guestMiB, pssMiB: guestMiB, goalMiB: 12 },
  ];
  await cluster.remove(cluster.cluster.sandboxes, sandbox);
  return memory;
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
