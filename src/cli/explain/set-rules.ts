import type { SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import type { SandboxSet } from "../../api/kinds/sandbox-set.ts";
import type { Condition } from "../../api/schema/metadata.ts";
import { parseDuration } from "../../base/duration.ts";
import { findCondition } from "../../kube/conditions.ts";
import { unprocessed } from "./controller-rules.ts";
import { type Explanation, type Found, completed, nothingToDo, remedyIn, reportOf, reported } from "./explanation.ts";
import { type Cause, type CommonFacts, foundIn, isProblem } from "./facts.ts";

interface SetFacts extends CommonFacts {
  set: SandboxSet;
  /** Why the longest-waiting of its unavailable sandboxes is in its state. */
  member: Cause | undefined;
}

export function explainSet(facts: SetFacts): Explanation {
  return completed(unprocessed(facts.set, facts) ?? stateOf(facts));
}

function stateOf({ set, member }: SetFacts): Found {
  const ready = findCondition(set.status?.conditions, "Ready");
  const since = ready?.lastTransitionTime;
  if (set.metadata.deletionTimestamp !== undefined) {
    return {
      state: "waiting",
      cause: "It is being deleted, with its unclaimed sandboxes",
      since: set.metadata.deletionTimestamp,
      retry: "Kubernetes removes it when they have ended",
    };
  }
  if (ready?.status !== "False") return full(set, since);
  if (ready.reason === "StartFailing") return failing(set, ready, member);
  if (ready.reason === "Filling") return filling(set, ready, member);
  return rejected(set, ready);
}

function full({ status, spec }: SandboxSet, since: string | undefined): Found {
  const updated = findCondition(status?.conditions, "Updated");
  const counts = `${status?.availableReplicas ?? 0} of ${spec.replicas} sandboxes are available`;
  if (updated?.status === "False") {
    return {
      state: "waiting",
      cause: `${counts}; ${updated.message}`,
      reason: updated.reason,
      since: updated.lastTransitionTime,
      retry: "The controllers replace the others within the limits of spec.updateStrategy",
    };
  }
  return { state: "healthy", cause: counts, since };
}

/** A spec that no sandbox can be created from. */
function rejected({ status }: SandboxSet, ready: Condition): Found {
  const retry = "The controllers try again when the set or its template changes";
  return reported(status, ready, { retry, otherwise: "Correct the set's spec" });
}

function failing({ status }: SandboxSet, ready: Condition, member: Cause | undefined): Found {
  const { cause, retryAt } = reportOf(status, ready);
  return reported(status, ready, {
    cause: `Its sandboxes end before they are claimed, or cannot be created: ${cause}`,
    retry: retryAt === undefined ? "An attempt is running" : `The next attempt is at ${retryAt}`,
    otherwise: member?.explanation.action ?? "Correct the template so that its sandboxes keep running",
    ...foundIn(member),
  });
}

function filling({ spec, status }: SandboxSet, ready: Condition, member: Cause | undefined): Found {
  const counts = `${status?.availableReplicas ?? 0} of ${spec.replicas} sandboxes are available`;
  if (!isProblem(member)) {
    return {
      state: "waiting",
      cause: `${counts}; the others are starting`,
      reason: ready.reason,
      since: ready.lastTransitionTime,
      retry: "The controllers create and start them now",
    };
  }
  const { object, explanation } = member;
  return {
    ...explanation,
    cause: `${counts}. ${object}: ${explanation.cause}`,
    ...foundIn(member),
  };
}

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
