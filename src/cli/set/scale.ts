import { sandboxSetKind } from "../../api/kinds/sandbox-set.ts";
import { withCluster, type ClusterOptions } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { printLine, type Io } from "../io.ts";
import { reportFailure } from "../report-error.ts";
import { untilFilled } from "./until-filled.ts";

export interface ScaleSetOptions extends ClusterOptions {
  name: string;
  /** How many unclaimed sandboxes it is to hold. */
  replicas: number;
  wait: boolean;
  /** Milliseconds; infinite is for ever. */
  timeout: number;
}

/** `ramet set scale`: writes the scale subresource, as `kubectl scale` does, and waits until the pool is as wished. */
export async function scaleSet(io: Io, options: ScaleSetOptions): Promise<number> {
  const { name, replicas } = options;
  return withCluster(io, options, async (cluster) => {
    const found = await cluster.get(cluster.sets, name, io.signal);
    const scale = { subresource: "scale", signal: io.signal };
    await cluster.raw(sandboxSetKind).mergePatch(found.metadata, { spec: { replicas } }, scale);
    if (!options.wait) {
      printLine(io.stdout, `set ${name} is being scaled to ${replicas}`);
      return exitCodes.ok;
    }
    const set = await cluster.get(cluster.sets, name, io.signal);
    const settled = await untilFilled(io, cluster, set, options.timeout);
    if ("failure" in settled) return reportFailure(io, settled.failure);
    printLine(io.stdout, `set ${name} holds ${settled.object.status?.availableReplicas ?? 0}`);
    return exitCodes.ok;
  });
}
