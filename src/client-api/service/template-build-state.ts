import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import { type ClientBuild, clientBuildsAnnotation, clientBuildsOf } from "../../api/snapshot/client-builds.ts";
import { defaultTag, tagsAnnotation, tagsOf } from "../../api/snapshot/snapshot-reference.ts";
import { snapshotState } from "../../api/state/named-snapshot.ts";
import { defined } from "../../base/defined.ts";
import { settlingMilliseconds } from "../../operations/await-build.ts";

export type BuildState =
  | { status: "waiting" | "building" }
  | { status: "ready"; version: number }
  | { status: "error"; error: string; step?: string };

/** The state of a build of a client, from the named snapshot alone. */
export function buildState(snapshot: NamedSnapshot, build: ClientBuild, now: Date): BuildState {
  const { outcome } = build;
  if (outcome !== undefined) {
    return "version" in outcome
      ? { status: "ready", version: outcome.version }
      : { status: "error", error: outcome.error, ...defined({ step: outcome.step }) };
  }
  if (build.startedAt === undefined) return { status: "waiting" };
  const isLast = lastStarted(snapshot)?.id === build.id;
  return isLast
    ? currentState(snapshot, build, now)
    : { status: "error", error: "Another build was started meanwhile" };
}

function lastStarted(snapshot: NamedSnapshot): ClientBuild | undefined {
  return clientBuildsOf(snapshot).findLast(({ startedAt }) => startedAt !== undefined);
}

/** The status is that of the build when the controllers have seen its spec. */
function currentState(snapshot: NamedSnapshot, build: ClientBuild, now: Date): BuildState {
  const { status } = snapshot;
  const { is, reason, message } = snapshotState(snapshot);
  if (is === "current" && status?.version !== undefined) return { status: "ready", version: status.version };
  const failed = is === "failed" ? failureOf(snapshot, build) : undefined;
  if (failed !== undefined) return failed;
  // An earlier failure is about to be replaced, and a new template may not have reached the controllers yet.
  const isSettled = now.getTime() - Date.parse(build.startedAt ?? "") > settlingMilliseconds;
  const isLasting = neverBuilt.has(is) || lasting.has(reason);
  return isLasting && isSettled ? { status: "error", error: message, step: "base" } : { status: "building" };
}

/** Undefined: the last failure is that of another build. */
function failureOf({ status }: NamedSnapshot, build: ClientBuild): BuildState | undefined {
  const failure = status?.build?.request === build.id ? status.build.failure : undefined;
  if (failure === undefined) return undefined;
  const step = failure.step === undefined ? "base" : build.origins?.[failure.step - 1];
  return { status: "error", error: failure.message, ...defined({ step }) };
}

/** For a client, whose version is not built, these are failures. */
const neverBuilt: ReadonlySet<string> = new Set(["held", "deleting"]);
const lasting: ReadonlySet<string> = new Set(["InputMissing", "Cycle", "VolumesNotCaptured"]);

/** The named snapshot with the outcome of a build that has ended, and with the tags of its version; the same one if nothing has. */
export function settled(snapshot: NamedSnapshot, now: Date): NamedSnapshot {
  const last = lastStarted(snapshot);
  if (last === undefined || last.outcome !== undefined) return snapshot;
  const state = currentState(snapshot, last, now);
  if (state.status !== "ready" && state.status !== "error") return snapshot;
  const outcome =
    state.status === "ready"
      ? { version: state.version }
      : { error: state.error.slice(0, mostCharacters), ...defined({ step: state.step }) };
  const builds = clientBuildsOf(snapshot).map((build) => (build.id === last.id ? { ...build, outcome } : build));
  const { metadata } = snapshot;
  const all = { ...metadata.annotations, ...clientBuildsAnnotation(builds), ...tagged(snapshot, last, state) };
  return { ...snapshot, metadata: { ...metadata, annotations: all } };
}

function tagged(snapshot: NamedSnapshot, { tags }: ClientBuild, state: BuildState): Record<string, string> {
  if (state.status !== "ready") return {};
  const moved = tags.filter((tag) => tag !== defaultTag).map((tag) => [tag, state.version] as const);
  return tagsAnnotation({ ...tagsOf(snapshot), ...Object.fromEntries(moved) });
}

const mostCharacters = 4096;
