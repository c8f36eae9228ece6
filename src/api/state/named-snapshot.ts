import type { NamedSnapshotStatus, SnapshotVersion } from "../kinds/named-snapshot-status.ts";
import type { Condition } from "../schema/metadata.ts";
import { conditionOf, hasObserved } from "./problem.ts";

/**
 * What the status of a named snapshot means:
 * - `waiting`: the controllers have not processed its current spec.
 * - `building`: the version of its spec is being built, captured or queued.
 * - `current`: the version of its spec is current.
 * - `held`: nothing is built, because it is pinned or suspended.
 * - `failed`: its last build failed, or it cannot be built. An earlier version stays current.
 * - `deleting`
 */
export interface SnapshotState {
  is: "waiting" | "building" | "current" | "held" | "failed" | "deleting";
  /** The reason of the condition `Building`. */
  reason: string;
  message: string;
}

export interface SnapshotStatusOf {
  metadata: { generation?: number | undefined; deletionTimestamp?: string | undefined };
  status?: NamedSnapshotStatus | undefined;
}

/** @param generation the generation that the controllers must have seen. @default the current one */
export function snapshotState(snapshot: SnapshotStatusOf, generation = snapshot.metadata.generation): SnapshotState {
  const building = conditionOf(snapshot, "Building");
  const { reason = "", message = "" } = building ?? {};
  if (snapshot.metadata.deletionTimestamp !== undefined) return { is: "deleting", reason, message };
  if (building === undefined || !hasObserved(snapshot, generation)) return { is: "waiting", reason, message };
  return { is: meaningOf(building), reason, message };
}

function meaningOf({ status, reason }: Condition): SnapshotState["is"] {
  if (status !== "False") return "building";
  if (reason === "Built") return "current";
  if (reason === "Deleting") return "deleting";
  return reason === "Pinned" || reason === "Suspended" ? "held" : "failed";
}

/** Whether a failure is the result of a build that ran, of which `status.build` has the details. */
export function isBuildFailure({ is, reason }: SnapshotState): boolean {
  return is === "failed" && buildFailures.has(reason);
}

/** How a build can fail: reasons of the condition `Building`. */
export const buildFailures: ReadonlySet<string> = new Set([
  "StepFailed",
  "BuilderFailed",
  "CaptureFailed",
  "ControllersStopped",
  "QuotaExceeded",
]);

/** Whether the current version has the engine of new sandboxes. */
export function hasCurrentEngine(snapshot: SnapshotStatusOf): boolean {
  return conditionOf(snapshot, "EngineCurrent")?.status !== "False";
}

/** Tells the author of a version what its clones repeat; undefined if nothing is known to repeat. */
export function repeatedNumbers({
  version,
  randomPrograms = [],
}: Pick<SnapshotVersion, "version" | "randomPrograms">): { cause: string; hint: string } | undefined {
  if (randomPrograms.length === 0) return undefined;
  return {
    cause: `Clones of version ${version} repeat the random numbers of programs that run in it: ${randomPrograms.join(", ")}`,
    hint: "Seed the generators again in a hook in /etc/ramet/on-restore.d. List programs that do it themselves in the variable RAMET_RESEEDS",
  };
}
