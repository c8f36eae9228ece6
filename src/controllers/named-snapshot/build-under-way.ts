import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { NamedSnapshotStatus, SnapshotBuild, SnapshotStep } from "../../api/kinds/named-snapshot-status.ts";
import { builderName } from "./names.ts";
import type { SnapshotPlan, SnapshotState, DesiredVersion } from "./state.ts";
import { withStatus, type Building } from "./status.ts";

/** A build that has not ended. */
export interface BuildUnderWay {
  state: SnapshotState;
  desired: DesiredVersion;
  build: SnapshotBuild;
  /** The current status, with only the versions that can still be cloned. Plans add to it. */
  status: NamedSnapshotStatus;
}

/** The builder ended unexpectedly. Another one continues from the last captured step. */
export function lost(underWay: BuildUnderWay, why: string): SnapshotPlan {
  const { builder } = underWay.state;
  const name = builder?.metadata.name ?? builderName(underWay.state.snapshot.metadata.name, underWay.build);
  const plan = retry(underWay, "BuilderFailed", `The build sandbox ${name} ${why}`);
  const isThere = builder !== undefined && builder.metadata.deletionTimestamp === undefined;
  return { ...plan, actions: isThere ? [{ do: "deleteSandbox", sandbox: builder }] : [] };
}

/** Starts another attempt with another builder, or fails the build after the last attempt. */
export function retry(underWay: BuildUnderWay, reason: Building["reason"], message: string): SnapshotPlan {
  const { state, build, status } = underWay;
  if (build.attempt >= mostAttempts)
    return fail(underWay, { reason, message: `${message} (${mostAttempts} attempts)` });
  const { builderUid: _, ...rest } = build;
  const again = { ...status, build: { ...rest, attempt: build.attempt + 1 } };
  return {
    actions: [],
    status: withStatus(state, again, starting(`${message}; attempt ${build.attempt + 1} of ${mostAttempts}`)),
    transitions: [{ type: "Warning", reason, action: "Build", note: message }],
  };
}

/** Fails the build. The current version stays current. */
export function fail(
  { state, build, status }: BuildUnderWay,
  failure: { reason: Building["reason"]; message: string; step?: number },
): SnapshotPlan {
  const { reason, message } = failure;
  const steps = status.steps?.map((step) => (step.state === "Running" ? interrupted(step, message) : step));
  const ended = {
    ...status,
    build: { ...build, endedAt: state.now.toISOString(), failure },
    ...(steps && { steps }),
  };
  return {
    actions: [],
    status: withStatus(state, ended, { status: "False", reason, message }),
    transitions: [{ type: "Warning", reason, action: "Build", note: message }],
  };
}

function interrupted(step: SnapshotStep, error: string): SnapshotStep {
  return { ...step, state: "Failed", error };
}

/** The running step for a message: ` in step 2 of 3 (run make)`; empty between two steps. */
export function whereIn({ steps = [] }: NamedSnapshotStatus): string {
  const index = steps.findIndex(({ state }) => state === "Running");
  return index < 0 ? "" : ` in step ${index + 1} of ${steps.length} (${steps[index]?.step ?? ""})`;
}

/** Only reports what the build waits for. */
export function waiting({ state, status }: BuildUnderWay, building: Building): SnapshotPlan {
  return { actions: [], status: withStatus(state, status, building) };
}

/** Whether a Checkpoint has succeeded or failed. */
export function isEnded({ metadata, status }: Checkpoint): boolean {
  return metadata.deletionTimestamp === undefined && (status?.phase === "Succeeded" || status?.phase === "Failed");
}

export function starting(message: string): Building {
  return { status: "True", reason: "StartingBuilder", message };
}

const mostAttempts = 3;

/** The remedy for a build sandbox whose entrypoint ends. */
export const keepsRunning = "give its template a command that keeps running, such as sleep infinity";
