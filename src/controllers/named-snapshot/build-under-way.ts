import { type Checkpoint, withinQuota } from "../../api/kinds/checkpoint.ts";
import type { NamedSnapshotStatus, SnapshotBuild, SnapshotStep } from "../../api/kinds/named-snapshot-status.ts";
import type { Problem } from "../../api/schema/problem.ts";
import { printProblem, problemIn, within } from "../../api/state/problem.ts";
import { defined } from "../../base/defined.ts";
import { findCondition } from "../../kube/conditions.ts";
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

/** How a builder ended: `was deleted in step 2 of 3 (run make)`, and its own report. */
export interface BuilderEnd {
  what: string;
  because?: Problem | undefined;
}

/** The builder ended unexpectedly. Another one continues from the last captured step. */
export function lost(underWay: BuildUnderWay, { what, because }: BuilderEnd): SnapshotPlan {
  const { builder } = underWay.state;
  const name = builder?.metadata.name ?? builderName(underWay.state.snapshot.metadata.name, underWay.build);
  const context = `The build sandbox ${name} ${what}`;
  const problem = because === undefined ? { code: "BuilderFailed", cause: context } : within(because, context);
  const plan = retry(underWay, { reason: "BuilderFailed", problem });
  const isThere = builder !== undefined && builder.metadata.deletionTimestamp === undefined;
  return { ...plan, actions: isThere ? [{ do: "deleteSandbox", sandbox: builder }] : [] };
}

/** Starts another attempt with another builder, or fails the build after the last attempt. */
export function retry(underWay: BuildUnderWay, failure: Failure): SnapshotPlan {
  const { state, build, status } = underWay;
  const { reason } = failure;
  const message = printProblem(failure.problem);
  if (build.attempt >= mostAttempts)
    return fail(underWay, { ...failure, message: `${message} (${mostAttempts} attempts)` });
  const { builderUid: _, ...rest } = build;
  const again = { ...status, build: { ...rest, attempt: build.attempt + 1 } };
  return {
    actions: [],
    status: withStatus(state, again, starting(`${message}; attempt ${build.attempt + 1} of ${mostAttempts}`)),
    transitions: [{ type: "Warning", reason, action: "Build", note: message }],
  };
}

/** A repeat would exceed the quota or be too large again, so the build waits for somebody who makes room. */
export function captureFailed(underWay: BuildUnderWay, checkpoint: Checkpoint, what: string): SnapshotPlan {
  const { name, namespace } = underWay.state.snapshot.metadata;
  const { conditions, message: why = "" } = checkpoint.status ?? {};
  const object = { kind: "Checkpoint", name: checkpoint.metadata.name };
  const problem = within(problemIn(checkpoint.status) ?? { code: "CaptureFailed", cause: why, object }, what);
  const { hint = "Make room" } = problem;
  const again = `${hint}; then run: ramet snapshot build ${name} -n ${namespace}`;
  const isOverQuota = findCondition(conditions, withinQuota)?.status === "False";
  const reason = isOverQuota ? "QuotaExceeded" : "CaptureFailed";
  const plan =
    isOverQuota || problem.code === "CheckpointTooLarge"
      ? fail(underWay, { reason, problem: { ...problem, hint: again } })
      : retry(underWay, { reason, problem });
  return { ...plan, actions: [{ do: "deleteCheckpoint", checkpoint }] };
}

interface Failure {
  reason: Building["reason"];
  problem: Problem;
  /** @default that of the problem */
  message?: string;
  step?: number;
}

/** Fails the build. The current version stays current. */
export function fail({ state, build, status }: BuildUnderWay, failure: Failure): SnapshotPlan {
  const { reason, problem, message = printProblem(problem) } = failure;
  const steps = status.steps?.map((step) => (step.state === "Running" ? interrupted(step, message) : step));
  const ended = {
    ...status,
    build: { ...build, endedAt: state.now.toISOString(), failure: { ...failure, message } },
    ...defined({ steps }),
  };
  return {
    actions: [],
    status: withStatus(state, ended, { status: "False", reason, message, problem }),
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

export function starting(message: string, name?: string): Building {
  const building = { status: "True", reason: "StartingBuilder", message } as const;
  return name === undefined ? building : { ...building, waitsFor: { kind: "Sandbox", name } };
}

const mostAttempts = 3;

/** The remedy for a build sandbox whose entrypoint ends. */
export function entrypointEnded(code: string, cause: string): Problem {
  return { code, cause, hint: "Give its template a command that keeps running, such as sleep infinity" };
}

/** Whether the steps are those of the running build. One whose version is being captured only has to end. */
export function hasSteps({ snapshot, versionCheckpoint }: SnapshotState, digests: readonly string[]): boolean {
  const { steps = [] } = snapshot.status ?? {};
  return versionCheckpoint !== undefined || steps.every(({ digest }, index) => digest === digests[index]);
}
