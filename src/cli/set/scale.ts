import { sandboxSetKind } from "../../api/kinds/sandbox-set.ts";
import { awaitSet } from "../../operations/await-set.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { clusterObjects } from "../cluster/objects.ts";
import { type Io, printLine } from "../io.ts";
import type { WaitFlags } from "../options.ts";
import { exitCodes, reportFailure } from "../report-error.ts";

/** `ramet set scale`: writes the scale subresource, as `kubectl scale` does, and waits until the set has that number. */
export async function scaleSet(
  io: Io,
  cluster: Cluster,
  { name, replicas, ...options }: WaitFlags & { name: string; replicas: number },
): Promise<number> {
  const found = await cluster.get(cluster.sets, name);
  const scale = { subresource: "scale", signal: io.signal };
  await cluster.raw(sandboxSetKind).mergePatch(found.metadata, { spec: { replicas } }, scale);
  if (!options.wait) {
    printLine(io.stdout, `set ${name} is being scaled to ${replicas}`);
    return exitCodes.ok;
  }
  const set = await cluster.get(cluster.sets, name);
  const wait = { goal: "exact" as const, timeoutMilliseconds: options.timeout, signal: io.signal };
  const settled = await awaitSet(clusterObjects(io, cluster).sets, set, wait);
  if ("failure" in settled) return reportFailure(io, settled.failure);
  printLine(io.stdout, `set ${name} scaled to ${settled.object.status?.availableReplicas ?? 0}`);
  return exitCodes.ok;
}
