import { type SandboxSet, sandboxSetKind } from "../../api/kinds/sandbox-set.ts";
import { RametError } from "../../base/errors.ts";
import { findCondition } from "../../kube/conditions.ts";
import { failureOf } from "../../kube/reported-state.ts";
import type { Settled } from "../../operations/objects.ts";
import { type Cluster, type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Io, printLine } from "../io.ts";
import { reportFailure } from "../report-error.ts";
import { followRequest } from "../wait/follow.ts";

export interface ScaleSetOptions extends ClusterOptions {
  name: string;
  /** The number of unclaimed sandboxes. */
  replicas: number;
  wait: boolean;
  /** Milliseconds; `Infinity` waits forever. */
  timeout: number;
}

/** `ramet set scale`: writes the scale subresource, as `kubectl scale` does, and waits until the set has that number. */
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
    printLine(io.stdout, `set ${name} scaled to ${settled.object.status?.availableReplicas ?? 0}`);
    return exitCodes.ok;
  });
}

/**
 * Waits until a set has the requested number of ready sandboxes, or returns why it cannot get there.
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
    return { failure: new RametError("Conflict", `The set ${name} was deleted during the wait`) };
  }
  if (isFilled(set)) return { object: set };
  return { failure: failureOf(`The set ${name} cannot be filled`, set, "SandboxNotReady") };
}

/** Whether the controller has seen the current spec and the set has exactly the requested number. */
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
  if (set === undefined) return "deleted";
  const { status, spec } = set;
  if (status === undefined) return "waiting for the controller";
  return `at ${status.availableReplicas} of ${spec.replicas} ready sandboxes`;
}
