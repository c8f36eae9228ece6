import { findIgnored } from "../../api/fields/find-ignored.ts";
import type { Condition } from "../../api/schema/metadata.ts";
import type { SandboxClaimStatus } from "../../api/kinds/sandbox-claim.ts";
import type { Problem } from "../../api/schema/problem.ts";
import { printProblem, sentenceOf, within } from "../../api/state/problem.ts";
import { report, stalled, withIgnoredFields } from "../../kube/conditions.ts";
import type { ClaimPlan, ClaimState } from "./state.ts";

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
