import type { NamedSnapshot } from "../api/kinds/named-snapshot.ts";
import { annotations } from "../api/names/labels.ts";
import { type SnapshotState, hasCurrentEngine, isBuildFailure, snapshotState } from "../api/state/named-snapshot.ts";
import { conditionOf, describeProblem, reportedBy } from "../api/state/problem.ts";
import { RametError } from "../base/errors.ts";
import { failureOf } from "../kube/conditions.ts";
import type { Settled, Wait, Watched } from "./objects.ts";

/** The build that is waited for. */
export interface RequestedBuild {
  /** The digest of its inputs. @default only the controllers can compute it */
  digest?: string | undefined;
  /** The `ramet.dev/build-request` that the controllers must have observed, if one was made. */
  request?: string | undefined;
}

/** How long the controllers may report a state that recent changes of other objects have ended, such as a missing template. */
export const settlingMilliseconds = 20_000;

/**
 * Waits until the version that a named snapshot specifies is current, until it cannot be built, or until the snapshot is held. The
 * current version can be of other inputs than requested, if others have changed the objects that it is built from.
 * @param written the response to the write that requested the build
 * @throws RametError `Timeout` or `Canceled`
 */
export async function awaitBuild(
  snapshots: Watched<NamedSnapshot>,
  written: NamedSnapshot,
  { digest, request, ...wait }: Wait & RequestedBuild,
): Promise<Settled<NamedSnapshot>> {
  const { name, generation } = written.metadata;
  const build = { digest, request, generation };
  return snapshots.follow(written, {
    what: `the snapshot ${name}`,
    until: (seen, waited) => (isBuildOver(seen, build, waited) ? buildResult(name, seen) : undefined),
    requeueAfterMilliseconds: settlingMilliseconds,
    describe: stateOfBuild,
    ...wait,
  });
}

/**
 * Whether the build of a generation, or the requested one, has ended.
 * @param waitedMilliseconds since the request
 */
export function isBuildOver(
  snapshot: NamedSnapshot | undefined,
  build: RequestedBuild & { generation?: number | undefined },
  waitedMilliseconds: number,
): boolean {
  if (snapshot === undefined) return true;
  const state = snapshotState(snapshot, build.generation);
  const isSettled = waitedMilliseconds >= settlingMilliseconds;
  if (state.is === "current") return isServed(snapshot, build) && (isOf(build, snapshot.status?.digest) || isSettled);
  if (state.is === "failed") return isFailureOf(snapshot, build, state) ?? isSettled;
  return state.is === "deleting" || state.is === "held";
}

/** Undefined: the failure is of other inputs, or ends with a recent change of another object. */
function isFailureOf(snapshot: NamedSnapshot, build: RequestedBuild, state: SnapshotState): boolean | undefined {
  if (!isBuildFailure(state)) return state.reason === "InputMissing" ? undefined : true;
  return isOf(build, snapshot.status?.build?.digest) ? isHeard(snapshot, build) : undefined;
}

/** The controllers record no request for a version that is current and has the current engine. */
function isServed(snapshot: NamedSnapshot, build: RequestedBuild): boolean {
  return isHeard(snapshot, build) || hasCurrentEngine(snapshot);
}

/** The same build, or a later one, also serves a request that came after this one. */
function isHeard({ metadata, status }: NamedSnapshot, { request }: RequestedBuild): boolean {
  return request === undefined || status?.build?.request === metadata.annotations?.[annotations.buildRequest];
}

function isOf({ digest }: RequestedBuild, found: string | undefined): boolean {
  return digest === undefined || found === digest;
}

/** The result of a build that is over: the object if its version is current or it is held, else the failure. */
export function buildResult(name: string, snapshot: NamedSnapshot | undefined): Settled<NamedSnapshot> {
  const state = snapshot && snapshotState(snapshot);
  if (snapshot === undefined || state === undefined || state.is === "deleting") {
    return { failure: new RametError("Conflict", `The snapshot ${name} was deleted during the wait`) };
  }
  if (state.is === "current" || state.is === "held") return { object: snapshot };
  return { failure: notBuilt(name, snapshot) };
}

function notBuilt(name: string, { status }: NamedSnapshot): RametError {
  const { version, build, steps = [] } = status ?? {};
  const current = version === undefined ? "there is no version yet" : `version ${version} stays current`;
  const what = `The snapshot ${name} was not built (${current})`;
  const { code, message } = failureOf(what, { status }, "StepFailed", "Building");
  const output = steps[(build?.failure?.step ?? 0) - 1]?.output;
  return new RametError(code, output === undefined ? message : `${message}\n${output}`);
}

/** Returns the words after `it is` in an error: `building: Step 3 of 4: run pip install pandas`. */
export function stateOfBuild(snapshot: NamedSnapshot | undefined): string {
  const isBuilding = snapshot !== undefined && snapshotState(snapshot, 0).is === "building";
  return `${isBuilding ? "building: " : ""}${describeBuild(snapshot)}`;
}

/** The state for progress lines: `Step 3 of 4: run pip install pandas`. */
export function describeBuild(snapshot: NamedSnapshot | undefined): string {
  if (snapshot === undefined) return "deleted";
  const { is } = snapshotState(snapshot);
  if (is === "current") return `version ${snapshot.status?.version ?? ""} is current`;
  const building = conditionOf(snapshot, "Building");
  if (is === "waiting" || building === undefined) return "waiting for the controller";
  return describeProblem(reportedBy(snapshot.status, building));
}
