import { parsePodTemplate } from "../../api/schema/pod-template.ts";
import type { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import { RametError } from "../../base/errors.ts";
import {
  completed,
  type Explanation,
  generalRemedy,
  type Found,
  nothingToDo,
  remedyIn,
  reportOf,
} from "./explanation.ts";
import type { IgnoredReport } from "../object/ignored-fields.ts";
import { lastExpiry, unexpired } from "../../api/keys/api-key-rules.ts";
import type { ApiKey } from "../../api/kinds/api-key.ts";
import type { SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import { parseDuration } from "../../base/duration.ts";
import { findCondition } from "../../kube/conditions.ts";
import { unprocessed } from "./controller-rules.ts";
import { type Cause, type CommonFacts, foundIn, isProblem } from "./facts.ts";

/** Explains whether sandboxes can be created from a template. Pure: a template has no status. */
export function explainTemplate({ metadata, spec }: SandboxTemplate): Explanation {
  const retry = "Sandboxes are created from it as soon as it is corrected";
  const shared = { since: metadata.creationTimestamp, retry };
  try {
    const image = parsePodTemplate(spec.template).spec.containers[0]?.image ?? "";
    return completed({ state: "healthy", cause: `Its fields are valid; sandboxes run the image ${image}` }, shared);
  } catch (thrown) {
    const { code, message, hint } = RametError.from(thrown);
    return completed({ cause: message, reason: code, action: hint ?? generalRemedy(code) }, shared);
  }
}

/** Adds fields without effect to the explanation of an object without another problem. Pure. */
export function withIgnored(explanation: Explanation, ignored: IgnoredReport | undefined): Explanation {
  if (ignored === undefined || explanation.state !== "healthy") return explanation;
  return {
    ...explanation,
    state: "degraded",
    cause: `${explanation.cause}; but not everything in its manifest applies: ${ignored.message}`,
    reason: ignored.reason,
    since: ignored.since,
    action: remedies[ignored.reason] ?? "Remove these fields, or keep them for other clusters",
  };
}

const remedies: Readonly<Record<string, string>> = {
  TemplateChanged: "Create another sandbox from the changed template, or undo the change",
};

/** Explains whether an API key is accepted. Pure: a key has no status. */
export function explainKey({ metadata, spec }: ApiKey, now: Date): Explanation {
  const { name, namespace, creationTimestamp: since } = metadata;
  if (unexpired(spec.digests, now).length > 0) {
    const cause = `Its requests are authorized as the service account ${spec.serviceAccountName} in namespace ${namespace}`;
    return completed({ state: "healthy", cause, since });
  }
  const action = `Give it a new value with: ramet key rotate ${name} -n ${namespace}`;
  return completed({ cause: "All its values have expired", since: lastExpiry(spec.digests), action });
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
