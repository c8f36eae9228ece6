import { findIgnored } from "../../api/fields/find-ignored.ts";
import type { Condition } from "../../api/schema/metadata.ts";
import type { SandboxClaimStatus } from "../../api/kinds/sandbox-claim.ts";
import { setCondition } from "../../kube/conditions.ts";
import { withIgnoredFields } from "../cluster/ignored-fields.ts";
import type { ClaimPlan, ClaimState } from "./state.ts";

/** The status of a running claim. `why` is what it waits for, if known. */
export function claiming(state: ClaimState, delivered: string[], why: string): SandboxClaimStatus {
  const conditions = conditionsOf(state);
  return {
    ...common(state, delivered),
    ...(conditions.length > 0 && { conditions }),
    phase: "Claiming",
    message: sentence(state, delivered, why),
  };
}

/** The status of a completed claim, with the conditions of OpenKruise Agents. */
export function completed(
  state: ClaimState,
  { reason, message: why, delivered }: { reason: string; message: string; delivered: string[] },
): Pick<ClaimPlan, "status" | "transitions"> {
  const { now } = state;
  const isWhole = reason === "AllReplicasClaimed";
  const message = isWhole ? sentence(state, delivered, "") : sentence(state, delivered, whyNot(state, reason, why));
  const ends = [
    { type: "Completed", status: "True", reason, message } as const,
    ...(reason === "TimeoutReached"
      ? [{ type: "TimedOut", status: "True", reason: "ClaimTimeoutReached", message } as const]
      : []),
  ];
  const conditions = ends.reduce<Condition[]>(
    (all, condition) => setCondition(all, condition, now),
    conditionsOf(state),
  );
  return {
    status: { ...common(state, delivered), phase: "Completed", message, completionTime: time(now), conditions },
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

function common({ startedAt }: ClaimState, delivered: string[]): SandboxClaimStatus {
  return {
    claimedReplicas: delivered.length,
    claimStartTime: time(startedAt),
    ...(delivered.length > 0 && { ramet: { sandboxes: delivered } }),
  };
}

function sentence({ claim }: ClaimState, delivered: string[], why: string): string {
  const count = `${delivered.length} of ${claim.spec.replicas} claimed`;
  return why === "" ? count : `${count}: ${why}`;
}

function whyNot({ claim }: ClaimState, reason: string, why: string): string {
  if (reason !== "TimeoutReached") return why;
  const waited = `timed out after ${claim.spec.claimTimeout} (spec.claimTimeout)`;
  return why === "" ? `${waited}; raise the replicas of the set ${claim.spec.templateName}` : `${waited}; ${why}`;
}

function time(instant: Date): string {
  return instant.toISOString().replace(/\.\d+Z$/, "Z");
}
