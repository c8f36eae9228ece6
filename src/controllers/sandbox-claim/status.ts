import { findIgnored } from "../../api/fields/find-ignored.ts";
import type { SandboxClaim, SandboxClaimStatus } from "../../api/kinds/sandbox-claim.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, restoreFrom, restoreFromAnnotations } from "../../api/names/labels.ts";
import type { Condition } from "../../api/schema/metadata.ts";
import type { Problem } from "../../api/schema/problem.ts";
import { printProblem, sentenceOf, within } from "../../api/state/problem.ts";
import { missingPart, whyNeverServing } from "../../api/state/sandbox.ts";
import { defined } from "../../base/defined.ts";
import {
  describeReport,
  findCondition,
  report,
  reportedProblem,
  stalled,
  withIgnoredFields,
} from "../../kube/conditions.ts";
import type { ClaimRequest } from "../../operations/claim/request.ts";
import type { ClaimPlan, ClaimState, MemberProgress } from "./state.ts";

/** The status of a running claim. `why` is what it waits for, if known. */
export function claiming(state: ClaimState, delivered: string[], why: Problem | undefined): SandboxClaimStatus {
  const count = counted(state, delivered);
  const message = why === undefined ? count : `${count}: ${printProblem(why)}`;
  const problem = why && within(why, count);
  return report(
    { ...common(state, delivered), phase: "Claiming", message },
    [{ type: "Ready", status: "False", reason: "Claiming", message, problem }],
    state,
  );
}

/** The status of a completed claim, with the conditions of OpenKruise Agents. */
export function completed(
  state: ClaimState,
  {
    reason,
    delivered,
    ...end
  }: { why: Problem | undefined; message?: string } & { reason: string; delivered: string[] },
): Pick<ClaimPlan, "status" | "transitions"> {
  const { now } = state;
  const count = counted(state, delivered);
  const isWhole = reason === "AllReplicasClaimed";
  const { why, message: words } = reason === "TimeoutReached" ? timedOut(state, end.why) : end;
  const message = isWhole || why === undefined ? count : `${count}: ${words ?? printProblem(why)}`;
  const problem = within(why ?? { code: reason, cause: reason }, count);
  const status = {
    ...common(state, delivered),
    phase: "Completed",
    message,
    completionTime: time(now),
    // With problems, it says too that it has no sandboxes.
    ...(!isWhole && { ramet: { sandboxes: delivered } }),
  };
  return {
    status: report(
      status,
      [
        { type: "Completed", status: "True", reason, message },
        ...(reason === "TimeoutReached"
          ? [{ type: "TimedOut", status: "True", reason: "ClaimTimeoutReached", message } as const]
          : []),
        ...(isWhole
          ? [{ type: "Ready", status: "True", reason, message } as const]
          : stalled(message, problem, reason)),
      ],
      state,
    ),
    // A successful claim needs no event: its client waits for the status.
    ...(!isWhole && { transitions: [{ type: "Warning", reason, action: "Claim", note: message }] }),
  };
}

/** The status of a completed claim after its spec has changed, which has no further effect. */
export function stillCompleted({ claim, now }: Pick<ClaimState, "claim" | "now">): SandboxClaimStatus {
  return { ...claim.status, conditions: conditionsOf({ claim, now }) };
}

/** Those of before, and the one that names fields without effect. */
function conditionsOf({ claim, now }: Pick<ClaimState, "claim" | "now">): Condition[] {
  return withIgnoredFields(claim.status?.conditions, findIgnored("SandboxClaim", claim), now);
}

function common(state: ClaimState, delivered: string[]): SandboxClaimStatus {
  const { startedAt } = state;
  const conditions = conditionsOf(state);
  return {
    ...(conditions.length > 0 && { conditions }),
    claimedReplicas: delivered.length,
    claimStartTime: time(startedAt),
    ...(delivered.length > 0 && { ramet: { sandboxes: delivered } }),
  };
}

function counted({ claim }: ClaimState, delivered: string[]): string {
  return `${delivered.length} of ${claim.spec.replicas} claimed`;
}

function timedOut({ claim }: ClaimState, why: Problem | undefined): { why: Problem; message?: string } {
  const waited = `timed out after ${claim.spec.claimTimeout} (spec.claimTimeout)`;
  if (why !== undefined) return { why: { ...why, cause: `${waited}; ${why.cause}` } };
  const { templateName } = claim.spec;
  const late = { code: "Timeout", cause: waited, hint: `Raise the replicas of the set ${templateName}` };
  return { why: late, message: sentenceOf(late) };
}

function time(instant: Date): string {
  return instant.toISOString().replace(/\.\d+Z$/, "Z");
}

/**
 * Whether a claimed sandbox is ready for use. A slow one is waited for: it would be no faster if it were created again.
 * @param hasEgress whether its cell has the egress policy of its levels, which the claim's annotations are part of
 * @param seenAt when this process first saw the claim: the time without a controller does not count
 */
export function progressOf(
  sandbox: Sandbox,
  { hasEgress, waitReadyMilliseconds, seenAt, now }: ProgressOptions,
): MemberProgress {
  const { metadata, status } = sandbox;
  const endedBecause = whyNeverServing(sandbox);
  if (endedBecause !== undefined) return { is: "failed", why: endedBecause };
  const missing = missingPart(sandbox) ?? (hasEgress ? undefined : "its egress rules are not in effect yet");
  if (missing === undefined) return { is: "ready" };
  const claimedAt = Date.parse(metadata.annotations?.[annotations.claimTimestamp] ?? metadata.creationTimestamp);
  const slowFrom = new Date(Math.max(claimedAt, seenAt.getTime()) + waitReadyMilliseconds);
  const report = reportOf(status);
  const why = report === undefined ? { code: "SandboxNotReady", cause: missing } : within(report, missing);
  if (slowFrom > now) return { is: "waiting", slowFrom, why };
  const cause = `after ${waitReadyMilliseconds / 1000} s (spec.waitReadyTimeout) ${why.cause}`;
  return { is: "waiting", slowFrom, why: { ...why, cause } };
}

interface ProgressOptions {
  hasEgress: boolean;
  waitReadyMilliseconds: number;
  seenAt: Date;
  now: Date;
}

function reportOf(status: Sandbox["status"]): Problem | undefined {
  const message = describeReport({ status });
  const code = findCondition(status?.conditions, "Ready")?.reason ?? "SandboxNotReady";
  return reportedProblem(status) ?? (message === undefined ? undefined : { code, cause: message });
}

/**
 * The request for each sandbox of a claim. An annotation `restore-from` of the claim is restored in place, as the sandbox is
 * running already.
 * @throws RametError `InvalidArgument` when two of these annotations differ
 */
export function claimRequest({ metadata, spec }: SandboxClaim): Omit<ClaimRequest, "lock" | "timeoutMilliseconds"> {
  const { labels: own, annotations: notes = {}, envVars, shutdownTime } = spec;
  const from = restoreFrom({ metadata: { annotations: notes }, spec: {} });
  const annotations = Object.fromEntries(Object.entries(notes).filter(([key]) => !isRestoreFrom(key)));
  return {
    namespace: metadata.namespace,
    set: spec.templateName,
    owner: metadata.uid,
    claimName: metadata.name,
    createOnNoStock: spec.createOnNoStock,
    annotations,
    ...defined({ labels: own }),
    ...(envVars && !spec.skipInitRuntime && { environment: envVars }),
    ...defined({ restoreFrom: from, shutdownTime }),
  };
}

function isRestoreFrom(key: string): boolean {
  return (restoreFromAnnotations as readonly string[]).includes(key);
}
