import type { SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import { parseDuration } from "../../base/duration.ts";
import { findCondition } from "../../kube/conditions.ts";
import { unprocessed } from "./controller-rules.ts";
import { completed, type Explanation, type Found, nothingToDo, remedyIn, reportOf } from "./explanation.ts";
import { type Cause, type CommonFacts, foundIn, isProblem } from "./facts.ts";

export interface ClaimFacts extends CommonFacts {
  claim: SandboxClaim;
  /** Why its set is in its state; undefined if the set does not exist. */
  set: Cause | undefined;
}

export function explainClaim(facts: ClaimFacts): Explanation {
  const { claim } = facts;
  const isOver = claim.status?.phase === "Completed";
  return completed(isOver ? over(facts) : (unprocessed(claim, facts) ?? claiming(facts)));
}

function over({ claim, set }: ClaimFacts): Found {
  const { spec, status } = claim;
  const end = findCondition(status?.conditions, "Completed");
  const since = status?.completionTime;
  if (end?.reason === "AllReplicasClaimed" || (status?.claimedReplicas ?? 0) >= spec.replicas) {
    return {
      state: "healthy",
      cause: `It has its ${spec.replicas} sandboxes`,
      since,
    };
  }
  const reported = {
    type: "Ready",
    reason: end?.reason ?? "Completed",
    message: status?.message ?? "no reason is given",
  };
  const problem = reportOf(status, reported);
  return {
    state: "failed",
    cause: problem.cause,
    reason: problem.code,
    since,
    retry: "None: a completed claim stays so",
    action: remedyIn(problem, remedyFor(claim, set)),
    ...foundIn(set),
  };
}

function claiming({ claim, set }: ClaimFacts): Found {
  const { metadata, spec, status } = claim;
  const startedAt = status?.claimStartTime ?? metadata.creationTimestamp;
  const end = new Date(Date.parse(startedAt) + parseDuration(spec.claimTimeout)).toISOString().replace(/\.\d+Z$/, "Z");
  const message = status?.message ?? "It waits for a ready sandbox";
  const { cause, hint } = reportOf(status, { type: "Ready", reason: "Claiming", message });
  const isStuck = isProblem(set);
  return {
    state: isStuck ? "stuck" : "waiting",
    cause: isStuck ? `${cause}. ${set.object}: ${set.explanation.cause}` : cause,
    reason: status?.phase,
    since: startedAt,
    retry: `The controllers try again whenever the set ${spec.templateName} changes, until ${end}`,
    action: hint ?? (isStuck ? set.explanation.action : nothingToDo),
    ...foundIn(set),
  };
}

function remedyFor({ spec }: SandboxClaim, set: Cause | undefined): string {
  if (isProblem(set)) return set.explanation.action;
  return `Raise the replicas of the set ${spec.templateName} or spec.claimTimeout, and claim again`;
}
