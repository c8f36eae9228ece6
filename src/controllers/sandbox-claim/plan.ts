import { parseDuration } from "../../base/duration.ts";
import type { SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import type { Problem } from "../../api/schema/problem.ts";
import { problemOf, within } from "../../api/state/problem.ts";
import type { ClaimAction, ClaimEnd, ClaimPlan, ClaimState, Member } from "./state.ts";
import { claiming, completed, stillCompleted } from "./status.ts";

/** Limits the concurrent attempts of one claim, so that other claims get their turn. */
export const mostAtOnce = 50;

/** Plans a claim. A pure function. A claim never gets more sandboxes than it requests. */
export function planClaim(all: ClaimState): ClaimPlan {
  const state = withoutDelivered(all);
  const { claim, now } = state;
  if (claim.metadata.deletionTimestamp !== undefined) return { actions: [{ do: "stopClaims" }] };
  if (claim.status?.phase === "Completed") return withStatus(state, planCompleted(claim, now));
  const delivered = deliveredNames(state);
  if (delivered.length >= claim.spec.replicas) {
    return finish(state, removalOfFailed(state), { reason: "AllReplicasClaimed", delivered });
  }
  const deadline = new Date(state.startedAt.getTime() + parseDuration(claim.spec.claimTimeout));
  if (state.problem !== undefined) return endEarly(state, { ...state.problem, delivered });
  if (deadline <= now) return endEarly(state, { reason: "TimeoutReached", delivered });
  return continueClaim(state, delivered, deadline);
}

/** Once more after the spec has changed. */
function withStatus(state: ClaimState, plan: ClaimPlan): ClaimPlan {
  const { metadata, status } = state.claim;
  const isObserved = status?.observedGeneration === metadata.generation;
  return isObserved || plan.actions.length > 0 ? plan : { ...plan, status: stillCompleted(state) };
}

/** Deletes the claim after its TTL. Its sandboxes stay. */
function planCompleted({ spec, status }: SandboxClaim, now: Date): ClaimPlan {
  const ttlMilliseconds = parseDuration(spec.ttlAfterCompleted);
  if (ttlMilliseconds < 0 || status?.completionTime === undefined) return { actions: [] };
  const leftMilliseconds = Date.parse(status.completionTime) + ttlMilliseconds - now.getTime();
  if (leftMilliseconds <= 0) return { actions: [{ do: "deleteClaim" }] };
  return { actions: [], requeueAfterMilliseconds: leftMilliseconds };
}

/**
 * Leaves the sandboxes out that the status reports as delivered: they are their user's. One that is resumed, fails its probe or
 * waits for another egress rule is neither waited for nor removed, and no other sandbox takes its place.
 */
function withoutDelivered(state: ClaimState): ClaimState {
  const delivered = new Set(state.claim.status?.ramet?.sandboxes);
  return { ...state, members: state.members.filter(({ sandbox }) => !delivered.has(sandbox.metadata.name)) };
}

/** A sandbox that was delivered counts forever, also if its user has deleted it since. */
function deliveredNames({ claim, members }: ClaimState): string[] {
  const ready = members.filter(({ progress }) => progress.is === "ready").map(({ sandbox }) => sandbox.metadata.name);
  return [...new Set([...(claim.status?.ramet?.sandboxes ?? []), ...ready])];
}

/** Without a problem, its members say why. */
type End = Partial<ClaimEnd> & { reason: string; delivered: string[] };

/** Completes the claim with what it has. Sandboxes that are not ready are removed, so that none stays claimed unreported. */
function endEarly(state: ClaimState, end: End): ClaimPlan {
  // A write may be in progress; its end reconciles the claim again.
  if (state.underWay.length > 0) return { actions: [{ do: "stopClaims" }] };
  const late = state.members.filter(({ progress }) => progress.is === "waiting");
  return finish(state, [...removalOfFailed(state), ...late.map((member) => removal(state, member))], end);
}

function finish(state: ClaimState, actions: ClaimAction[], end: End): ClaimPlan {
  const ttlMilliseconds = parseDuration(state.claim.spec.ttlAfterCompleted);
  return {
    actions,
    ...completed(state, { why: causeOf(state), ...end }),
    // Nothing else reconciles it: the controller ignores its own status writes.
    ...(ttlMilliseconds >= 0 && { requeueAfterMilliseconds: ttlMilliseconds }),
  };
}

function continueClaim(state: ClaimState, delivered: string[], deadline: Date): ClaimPlan {
  const { claim, members, underWay, slowInMilliseconds } = state;
  const waiting = members.filter(({ progress }) => progress.is === "waiting");
  const mayStart = state.error === undefined && state.pauseMilliseconds === 0;
  const missing = claim.spec.replicas - delivered.length - waiting.length - underWay.length;
  const count = mayStart ? Math.max(0, Math.min(missing, mostAtOnce - underWay.length)) : 0;
  const starts = freeOrdinals(state, count).map((ordinal) => ({ do: "startClaim", ordinal, deadline }) as const);
  const isReported = slowInMilliseconds === 0 || claim.status?.phase !== undefined;
  return {
    actions: [...removalOfFailed(state), ...starts],
    ...(isReported && { status: claiming(state, delivered, causeOf(state)) }),
    requeueAfterMilliseconds: millisecondsUntilNext(state.now, deadline, waiting, [
      missing > 0 ? state.pauseMilliseconds : 0,
      isReported ? 0 : slowInMilliseconds,
    ]),
  };
}

function freeOrdinals({ used, underWay }: ClaimState, count: number): number[] {
  const free: number[] = [];
  for (let ordinal = 0; free.length < count; ordinal++) {
    if (!used.has(ordinal) && !underWay.includes(ordinal)) free.push(ordinal);
  }
  return free;
}

function removalOfFailed(state: ClaimState): ClaimAction[] {
  return state.members
    .filter(({ progress }) => progress.is === "failed")
    .filter(({ sandbox }) => sandbox.metadata.deletionTimestamp === undefined)
    .map((member) => removal(state, member));
}

function removal({ claim }: ClaimState, { sandbox }: Member): ClaimAction {
  return { do: claim.spec.reserveFailedSandbox === true ? "keepFailed" : "deleteSandbox", sandbox };
}

/** Why sandboxes are missing. Names one of them, as the cause is usually the same for all. */
function causeOf({ members, error }: ClaimState): Problem | undefined {
  const failed = members.find(({ progress }) => progress.is === "failed");
  const waiting = members.find(({ progress }) => progress.is === "waiting");
  const member = failed ?? waiting;
  if (member !== undefined && member.progress.is !== "ready") {
    const { name } = member.sandbox.metadata;
    const object = { kind: "Sandbox", name };
    return { ...within(member.progress.why, `the sandbox ${name} is not available`), object };
  }
  return error && problemOf(error);
}

/** @param pauses in milliseconds from `now`; 0 means no pause */
function millisecondsUntilNext(now: Date, deadline: Date, waiting: Member[], pauses: number[]): number {
  const times = [deadline, ...waiting.flatMap(({ progress }) => (progress.is === "waiting" ? [progress.until] : []))];
  return Math.min(...times.map((time) => time.getTime() - now.getTime()), ...pauses.filter((pause) => pause > 0));
}
