import { runInSandbox } from "./in-sandbox.ts";
import { partNames, type LocalCluster } from "./local-cluster.ts";
import { memoryOf, type Memory } from "./memory.ts";
import { podMemory } from "./pod-memory.ts";

/** Memory of an idle cluster: its parts, and one sandbox's processes by kind. */
export async function memoryAtRest(cluster: LocalCluster): Promise<Memory[]> {
  const sandbox = await cluster.createSandbox({ name: "at-rest" });
  // Memory used only during a start is freed within seconds.
  await new Promise((resolve) => setTimeout(resolve, 5_000));
  const parts = await Promise.all(
    partNames.map(async (name) => {
      const pid = cluster.part(name);
      const goal = name === "controller" ? { goalMiB: 120 } : {};
      return { ...(await memoryOf(name, pid === undefined ? [] : [pid])), ...goal };
    }),
  );
  const { cell, link, engine } = await podMemory(cluster, "at-rest");
  const guest = await runInSandbox(cluster, sandbox, "grep VmRSS /proc/1/status");
  const guestMiB = Number(/(\d+) kB/.exec(guest)?.[1] ?? Number.NaN) / 1024;
  const memory = [
    ...parts,
    { ...cell, goalMiB: 60 },
    link,
    engine,
    { what: "guest, as the sandbox's kernel reports", processes: 1, rssMiB: guestMiB, pssMiB: guestMiB, goalMiB: 12 },
  ];
  await cluster.remove(cluster.cluster.sandboxes, sandbox);
  return memory;
}
