import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { annotations } from "../../api/names/labels.ts";
import { RametError } from "../../base/errors.ts";
import { findCondition } from "../../kube/conditions.ts";
import { failureOf } from "../../kube/reported-state.ts";
import type { Settled } from "../../operations/objects.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Io } from "../io.ts";
import { followRequest } from "../wait/follow.ts";

/**
 * Waits until the desired version of a named snapshot is current, or returns why it cannot be built. Reports the running step.
 *
 * @param request the `ramet.dev/build-request` that the controller must have seen, if one was made
 * @throws RametError `Timeout` or `Canceled`
 */
export async function untilBuilt(
  io: Io,
  cluster: Cluster,
  snapshot: NamedSnapshot,
  wait: { timeoutMilliseconds: number; request?: string },
): Promise<Settled<NamedSnapshot>> {
  const { name } = snapshot.metadata;
  const { timeoutMilliseconds, request } = wait;
  const last = await followRequest(io, {
    resource: cluster.snapshots,
    from: snapshot,
    noun: "snapshot",
    timeoutMilliseconds,
    isOver: (seen) => hasEnded(seen, snapshot.metadata.generation, request),
    describe: stateOfSnapshot,
    describeProgress: describeSnapshot,
  });
  return settledBuild(name, last);
}

/** Whether the build of this generation, or the requested one, has ended. */
export function hasEnded(snapshot: NamedSnapshot, generation = 0, request?: string): boolean {
  const { metadata, status } = snapshot;
  if (metadata.deletionTimestamp !== undefined) return true;
  const { observedGeneration = 0, conditions } = status ?? {};
  const building = findCondition(conditions, "Building");
  // The controllers do not record a request for something that cannot be built.
  const isHeard =
    request === undefined || building?.reason === "InputMissing" || isUpToDate(conditions) || hearsLatest(snapshot);
  return observedGeneration >= generation && isHeard && building?.status === "False";
}

/** Neither is a request for a version that is current and has the current engine. */
function isUpToDate(conditions: NonNullable<NamedSnapshot["status"]>["conditions"]): boolean {
  const isBuilt = findCondition(conditions, "Building")?.reason === "Built";
  return isBuilt && findCondition(conditions, "EngineCurrent")?.status !== "False";
}

/** The same build, or a later one, also serves a request that came after ours. */
function hearsLatest({ metadata, status }: NamedSnapshot): boolean {
  return status?.build?.request === metadata.annotations?.[annotations.buildRequest];
}

/** The result: the object if the desired version is current, else the failure. */
export function settledBuild(name: string, snapshot: NamedSnapshot | undefined): Settled<NamedSnapshot> {
  if (snapshot?.metadata.deletionTimestamp !== undefined || snapshot === undefined) {
    return { failure: new RametError("Conflict", `The snapshot ${name} was deleted during the wait`) };
  }
  const building = findCondition(snapshot.status?.conditions, "Building");
  if (building !== undefined && harmless.has(building.reason)) return { object: snapshot };
  const conditions = building === undefined ? [] : [building];
  const reported = { status: { message: building?.message, conditions } };
  return { failure: failureOf(`The snapshot ${name} was not built`, reported, "StepFailed") };
}

const harmless = new Set(["Built", "Pinned", "Suspended"]);

/** What follows `it is` in an error: `building: Step 3 of 4: run pip install pandas`. */
export function stateOfSnapshot(snapshot: NamedSnapshot | undefined): string {
  const isBuilding = findCondition(snapshot?.status?.conditions, "Building")?.status === "True";
  return `${isBuilding ? "building: " : ""}${describeSnapshot(snapshot)}`;
}

/** `2/4, step 3 of 4: run pip install pandas`. */
export function describeSnapshot(snapshot: NamedSnapshot | undefined): string {
  if (snapshot === undefined) return "deleted";
  const building = findCondition(snapshot.status?.conditions, "Building");
  if (building === undefined) return "waiting for the controller";
  const message = building.message.split("\n")[0] ?? "";
  return building.reason === "Built" ? `version ${snapshot.status?.version ?? ""} is current` : message;
}
