import { RametError } from "../../base/errors.ts";
import type { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import { findCondition } from "../../kube/conditions.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Io } from "../io.ts";
import { followWish } from "../wait/follow-request.ts";
import { failureOf, type Settled } from "../wait/outcome.ts";

/**
 * Waits until a set holds as many ready sandboxes as it should, or says what stands in the way.
 *
 * @throws RametError `Timeout` or `Canceled`
 */
export async function untilFilled(
  io: Io,
  cluster: Cluster,
  set: SandboxSet,
  timeoutMilliseconds: number,
): Promise<Settled<SandboxSet>> {
  const { name } = set.metadata;
  const last = await followWish(io, {
    ...{ resource: cluster.sets, from: set, noun: "set", timeoutMilliseconds },
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
