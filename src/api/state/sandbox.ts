import { credentialsDigest } from "../credentials/credentials.ts";
import { requestedEgress } from "../egress/effective-egress.ts";
import type { Sandbox } from "../kinds/sandbox.ts";
import { initRequestDigest } from "../names/init-request.ts";
import { annotations } from "../names/labels.ts";
import { isRollbackPending, rollbackRequest } from "../names/rollback-request.ts";
import type { Condition } from "../schema/metadata.ts";
import type { Problem } from "../schema/problem.ts";
import { type WithConditions, conditionOf, problemIn, reportedBy, within } from "./problem.ts";

/**
 * What the status of a sandbox means:
 * - `starting`: it is created, resumed or upgraded, or waits for its resume.
 * - `serving`: its program answers.
 * - `degraded`: it runs, but it does not answer or its probes fail.
 * - `paused`: its state is stored.
 * - `ended`: it failed or exited, or it is being deleted. Only a rollback brings a failed one back.
 */
export interface SandboxState {
  is: "starting" | "serving" | "degraded" | "paused" | "ended";
  /** The reason of the condition `Ready` if it is `False`, else the phase; `Deleted` while the sandbox is being deleted. */
  reason: string;
}

/** The fields of a sandbox that its state depends on. */
export interface SandboxStatusOf extends WithConditions {
  metadata: { generation?: number | undefined; deletionTimestamp?: string | undefined };
  spec?: { paused?: boolean | undefined } | undefined;
  status?:
    | {
        phase?: string | undefined;
        observedGeneration?: number | undefined;
        conditions?: readonly Condition[] | undefined;
      }
    | undefined;
}

export function sandboxState(sandbox: SandboxStatusOf): SandboxState {
  const { metadata, spec } = sandbox;
  if (metadata.deletionTimestamp !== undefined) return { is: "ended", reason: "Deleted" };
  const phase = sandbox.status?.phase ?? "Pending";
  const ready = conditionOf(sandbox, "Ready");
  const reason = whyNotReady(ready) ?? phase;
  if (endedPhases.has(phase)) return { is: "ended", reason };
  if (phase === "Paused" && spec?.paused === true) return { is: "paused", reason: phase };
  if (phase !== "Running") return { is: "starting", reason };
  return { is: ready?.status === "True" ? "serving" : "degraded", reason };
}

function whyNotReady(ready: Condition | undefined): string | undefined {
  return ready?.status === "False" ? ready.reason : undefined;
}

/** `Terminating` is the last phase of a sandbox that is being deleted. */
const endedPhases: ReadonlySet<string> = new Set(["Failed", "Succeeded", "Terminating"]);

/** Whether it waits for a Pod, or for the first answer of the program in it. */
export function isStarting({ status }: Pick<SandboxStatusOf, "status">): boolean {
  return status?.phase === undefined || status.phase === "Pending" || status.phase === "Resuming";
}

/** Whether its `shutdownTime` deletes it also while it is paused. */
export function hasHardEnd({ metadata }: Pick<Sandbox, "metadata">): boolean {
  return metadata.annotations?.[annotations.clientHardLife] !== undefined;
}

/** Whether its program has ended or never started, so that only a rollback starts it again. */
export function hasExited({ status }: Pick<SandboxStatusOf, "status">): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}

/** Whether its program answers. A requested pause does not change that until the sandbox is paused. */
export function isServing(sandbox: SandboxStatusOf): boolean {
  return sandboxState(sandbox).is === "serving";
}

export function hasEnded(sandbox: SandboxStatusOf): boolean {
  return sandboxState(sandbox).is === "ended";
}

/**
 * Whether the node or the registry refuses the start, for example because an image cannot be pulled. The controllers keep trying,
 * because a user may still correct it in the cluster.
 */
export function isStartRefused(sandbox: SandboxStatusOf): boolean {
  const { is, reason } = sandboxState(sandbox);
  return is === "starting" && startRefusals.has(reason);
}

const startRefusals: ReadonlySet<string> = new Set(["StartContainerFailed", "ImageUnknown"]);

/** Why the current request to pause has failed, so that the sandbox continues to run; undefined if it has not. */
export function pauseFailure(sandbox: SandboxStatusOf): string | undefined {
  const { metadata, spec, status } = sandbox;
  if (spec?.paused !== true || status?.observedGeneration !== metadata.generation) return undefined;
  return failedPause(sandbox);
}

/** Why the last pause has failed; undefined if it has not, or if the controllers have noticed that nobody requests it any more. */
export function failedPause(sandbox: WithConditions): string | undefined {
  const condition = conditionOf(sandbox, "SandboxPaused");
  return condition?.reason === "CheckpointFailed" ? condition.message : undefined;
}

/** Why a claimed or created sandbox will not serve its client; undefined if it may. */
export function whyNeverServing(sandbox: Sandbox): Problem | undefined {
  const { metadata, status } = sandbox;
  if (metadata.deletionTimestamp !== undefined) return { code: "SandboxLost", cause: "it was deleted" };
  if (hasEnded(sandbox)) {
    const { phase = "Failed", message } = status ?? {};
    const problem = problemIn(status);
    if (problem !== undefined) return within(problem, `it is ${phase}`);
    return { code: phase, cause: message === undefined ? `it is ${phase}` : `it is ${phase}: ${message}` };
  }
  return rejectedByGuest(sandbox) ?? rejectedByCell(sandbox) ?? rejectedRules(sandbox);
}

/**
 * What a sandbox waits for before it serves its client; undefined: nothing. It needs more than {@link isServing}: what its request
 * sets must be in effect. Nothing is missing in one that its user has paused.
 */
export function missingPart(sandbox: Sandbox): string | undefined {
  if (sandbox.status?.phase === "Paused") return undefined;
  if (!isServing(sandbox)) return "it is not ready";
  if (isRollbackPending(sandbox)) return "the checkpoint is not restored yet";
  return missingSetting(sandbox);
}

function missingSetting(sandbox: Sandbox): string | undefined {
  const ramet = sandbox.status?.ramet;
  // Other controllers do not report it.
  if (ramet === undefined) return undefined;
  const { initRequest, egressRequest, credentials: given } = ramet;
  const request = initRequestDigest(sandbox);
  if (request !== undefined && request !== initRequest) return "its guest does not have the environment yet";
  if (requestedEgress(sandbox.metadata) !== egressRequest) return "its egress rules are not in effect yet";
  if (credentialsDigest(sandbox.metadata) !== given) return "its credentials are not in effect yet";
  return undefined;
}

function rejectedByGuest(sandbox: Sandbox): Problem | undefined {
  const initialized = conditionOf(sandbox, "RuntimeInitialized");
  if (initialized?.status !== "False" || initialized.reason !== "Failed") return undefined;
  return within(reportedBy(sandbox.status, initialized), "its guest rejected the environment");
}

function rejectedRules(sandbox: Sandbox): Problem | undefined {
  const refused = unappliedRules(sandbox).find(({ reason }) => reason === "InvalidArgument");
  return refused && reportedBy(sandbox.status, refused);
}

/** The conditions that report egress rules or credentials which the cell does not have. */
export function unappliedRules(sandbox: WithConditions): Condition[] {
  return ["EgressApplied", "CredentialsApplied"].flatMap((type) => {
    const condition = conditionOf(sandbox, type);
    return condition?.status === "False" ? [condition] : [];
  });
}

/**
 * Whether others end its Pod and it continues in another one: it is captured while it serves, or starts there. Its clients need to do
 * nothing but wait. Not while no node takes it: that can last.
 */
export function isMoving({ spec, status }: MovingParts): boolean {
  const { disruption, noTarget } = status?.ramet ?? {};
  return spec?.paused !== true && noTarget === undefined && movingOutcomes.has(disruption?.outcome ?? "");
}

const movingOutcomes: ReadonlySet<string> = new Set(["Migrating", "Restoring"]);

interface MovingParts {
  spec?: { paused?: boolean | undefined } | undefined;
  status?: { ramet?: { disruption?: { outcome?: string } | undefined; noTarget?: unknown } | undefined } | undefined;
}

/** What ended its Pod, if the current pause is of that and no user has requested it. */
export function pausedBy({ status }: Pick<Sandbox, "status">): string | undefined {
  const { cause, outcome, podUID } = status?.ramet?.disruption ?? {};
  const isCurrent = status?.phase === "Paused" && outcome === "Paused" && podUID === status.podInfo?.podUID;
  return isCurrent ? cause : undefined;
}

function rejectedByCell(sandbox: Sandbox): Problem | undefined {
  if (rollbackRequest(sandbox) === undefined || isRollbackPending(sandbox)) return undefined;
  // Memory of another engine is restored in another Pod.
  if (sandbox.status?.phase === "Resuming") return undefined;
  const rolledBack = conditionOf(sandbox, "RolledBack");
  if (rolledBack?.status !== "False") return undefined;
  return within(reportedBy(sandbox.status, rolledBack), "restoring the checkpoint failed");
}
