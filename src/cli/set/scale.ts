import { type SandboxSet, sandboxSetKind } from "../../api/kinds/sandbox-set.ts";
import { RametError } from "../../base/errors.ts";
import { findCondition } from "../../kube/conditions.ts";
import { type Cluster, type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Io, printLine } from "../io.ts";
import { reportFailure } from "../report-error.ts";
import { failureOf, followRequest, type Settled } from "../wait/follow.ts";

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

/**
 * Waits until a set holds as many ready sandboxes as it should, or says what stands in the way.
 *
 * @throws RametError `Timeout` or `Canceled`
 */
async function untilFilled(
  io: Io,
  cluster: Cluster,
  set: SandboxSet,
  timeoutMilliseconds: number,
): Promise<Settled<SandboxSet>> {
  const { name } = set.metadata;
  const last = await followRequest(io, {
    resource: cluster.sets,
    from: set,
    noun: "set",
    timeoutMilliseconds,
    isOver: (seen) => isFilled(seen) || isStuck(seen),
    describe: describeSet,
  });
  return settled(name, last);
}

function settled(name: string, set: SandboxSet | undefined): Settled<SandboxSet> {
  if (set === undefined) {
    return { failure: new RametError("Conflict", `The set ${name} was removed while it was waited for`) };
  }
  if (isFilled(set)) return { object: set };
  return { failure: failureOf(`The set ${name} cannot be filled`, set, "SandboxNotReady") };
}

/** Neither too few nor too many, as far as the controller has looked at the present wish. */
function isFilled({ metadata, spec, status }: SandboxSet): boolean {
  return (
    status?.observedGeneration === metadata.generation &&
    status?.availableReplicas === spec.replicas &&
    status.replicas === spec.replicas
  );
}

function isStuck({ metadata, status }: SandboxSet): boolean {
  const ready = findCondition(status?.conditions, "Ready");
  return status?.observedGeneration === metadata.generation && ready?.status === "False" && ready.reason !== "Filling";
}

function describeSet(set: SandboxSet | undefined): string {
  if (set === undefined) return "gone";
  const { status, spec } = set;
  if (status === undefined) return "not seen by a controller yet";
  return `${status.availableReplicas} of ${spec.replicas} ready`;
}
