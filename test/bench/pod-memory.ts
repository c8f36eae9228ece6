import type { LocalCluster } from "./local-cluster.ts";
import { memoryOf, type Memory } from "./memory.ts";
import { podFamily } from "./pod-family.ts";

/** The memory of a sandbox's Pod, by kind of process. */
export async function podMemory(
  cluster: LocalCluster,
  sandboxName: string,
): Promise<{ cell: Memory; link: Memory; engine: Memory }> {
  const family = await podFamily(cluster, sandboxName);
  const pids = (belongs: (commandLine: string) => boolean): number[] =>
    family.filter(({ commandLine }) => belongs(commandLine)).map(({ pid }) => pid);
  // gVisor's helpers for the sandbox's address spaces have no command line.
  const engine = pids((line) => line === "" || line.startsWith("runsc-"));
  const link = pids((line) => line.includes("ramet-link") && !line.startsWith("runsc-"));
  const cell = family.map(({ pid }) => pid).filter((pid) => !engine.includes(pid) && !link.includes(pid));
  return {
    cell: await memoryOf("cell", cell),
    link: await memoryOf("link", link),
    engine: await memoryOf("gVisor (with the Python workload in it)", engine),
  };
}
