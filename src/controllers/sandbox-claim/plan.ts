import { labels } from "../../api/names/labels.ts";
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
  // The end of an attempt reconciles the claim again.
  const isSettled = state.underWay.length === 0;
  if (isSettled && delivered.length >= claim.spec.replicas) return endWhole(state, delivered);
  const deadline = new Date(state.startedAt.getTime() + parseDuration(claim.spec.claimTimeout));
  if (state.problem !== undefined) return endEarly(state, { ...state.problem, delivered });
  if (deadline > now) return continueClaim(state, delivered, deadline);
  const last = deadline <= state.seenAt ? takeStock(state, delivered) : undefined;
  return last ?? endEarly(state, { reason: "TimeoutReached", delivered });
}

/** How long a claim that timed out while no controller ran may still take ready sandboxes. */
const graceMilliseconds = 5_000;

/** Takes ready sandboxes for a claim that timed out before a controller saw it. */
function takeStock(state: ClaimState, delivered: string[]): ClaimPlan | undefined {
  const { stock, seenAt, now, underWay } = state;
  const deadline = new Date(seenAt.getTime() + graceMilliseconds);
  const canGetMore = stock > 0 || underWay.length > 0 || waitingOf(state).length > 0;
  if (deadline <= now || state.error !== undefined || !canGetMore) return undefined;
  const missing = Math.min(stock, lacking(state, delivered).missing);
  const starts = freeOrdinals(state, startable(state, { missing, slow: 0 }).create).map(
    (ordinal) => ({ do: "startClaim", ordinal, deadline, onlyStock: true }) as const,
  );
  return {
    actions: [...removalOfFailed(state), ...starts],
    ...reported(state, delivered),
    requeueAfterMilliseconds: Math.min(deadline.getTime() - now.getTime(), untilReported(state) || Infinity),
  };
}

/** How long a claim without a status has until it is slow, and reports what it waits for. */
function untilReported({ claim, slowInMilliseconds }: ClaimState): number {
  return claim.status?.phase === undefined ? slowInMilliseconds : 0;
}

function reported(state: ClaimState, delivered: string[]): Pick<ClaimPlan, "status"> {
  return untilReported(state) > 0 ? {} : { status: claiming(state, delivered, causeOf(state)) };
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
  return [...new Set([...(claim.status?.ramet?.sandboxes ?? []), ...ready])].slice(0, claim.spec.replicas);
}

/** Removes the slow sandboxes that others have replaced, also if they are ready now. */
function endWhole(state: ClaimState, delivered: string[]): ClaimPlan {
  const replaced = waitingOf(state).map((member) => removal(state, member));
  const spare = state.members
    .filter(({ progress, sandbox }) => progress.is === "ready" && !delivered.includes(sandbox.metadata.name))
    .map(({ sandbox }) => ({ do: "deleteSandbox", sandbox }) as const);
  return finish(state, [...removalOfFailed(state), ...replaced, ...spare], { reason: "AllReplicasClaimed", delivered });
}

function waitingOf({ members }: ClaimState): Member[] {
  return members.filter(({ progress }) => progress.is === "waiting");
}

/** Without a problem, its members say why. */
type End = Partial<ClaimEnd> & { reason: string; delivered: string[] };

/** Completes the claim with what it has. Sandboxes that are not ready are removed, so that none stays claimed unreported. */
function endEarly(state: ClaimState, end: End): ClaimPlan {
  // A write may be in progress; its end reconciles the claim again.
  if (state.underWay.length > 0) return { actions: [{ do: "stopClaims" }] };
  const late = waitingOf(state).map((member) => removal(state, member));
  return finish(state, [...removalOfFailed(state), ...late], end);
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
  const { missing, slow } = lacking(state, delivered);
  const { create, replace } = startable(state, { missing, slow });
  const starts = freeOrdinals(state, create + replace).map(
    (ordinal, n) => ({ do: "startClaim", ordinal, deadline, onlyStock: n >= create }) as const,
  );
  return {
    actions: [...removalOfFailed(state), ...starts],
    ...reported(state, delivered),
    requeueAfterMilliseconds: millisecondsUntilNext(state, deadline, [
      missing > 0 ? state.pauseMilliseconds : 0,
      slow > 0 ? stockMilliseconds : 0,
      untilReported(state),
    ]),
  };
}

interface Lacking {
  /** Sandboxes that the claim has not tried to get. */
  missing: number;
  /** Slow ones for which it has not tried to get a ready one. */
  slow: number;
}

function lacking({ claim, members, underWay, now }: ClaimState, delivered: string[]): Lacking {
  const waiting = members.flatMap(({ progress }) => (progress.is === "waiting" ? [progress] : []));
  const slow = waiting.filter(({ slowFrom }) => slowFrom <= now).length;
  const missing = claim.spec.replicas - delivered.length - waiting.length - underWay.length;
  return { missing: Math.max(0, missing), slow: slow - Math.max(0, -missing) };
}

/**
 * How many attempts to start: those that create a sandbox if none is ready, and those that take a ready one for a slow one. The
 * number of existing sandboxes of the claim is limited, see {@link mostSandboxes}.
 */
function startable(state: ClaimState, { missing, slow }: Lacking): { create: number; replace: number } {
  const { claim, used, underWay, stock, error, pauseMilliseconds } = state;
  if (error !== undefined || pauseMilliseconds > 0) return { create: 0, replace: 0 };
  const room = mostSandboxes(claim.spec.replicas) - used.size - underWay.length;
  const most = Math.max(0, Math.min(room, mostAtOnce - underWay.length));
  const create = Math.min(missing, most);
  return { create, replace: Math.max(0, Math.min(slow, stock - create, most - create)) };
}

/** How often a claim with a slow sandbox looks for a ready one, which no watch reports to it. */
const stockMilliseconds = 5_000;

/** Those that it requests, and as many that have failed or are replaced, with two to spare. */
function mostSandboxes(replicas: number): number {
  return 2 * replicas + 2;
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
function causeOf(state: ClaimState): Problem | undefined {
  const { claim, members, used, error } = state;
  const failed = members.filter(({ progress }) => progress.is === "failed");
  // One that is being deleted was often deleted by this claim, for a cause that is not visible any more.
  const existing = failed.find(({ sandbox }) => sandbox.metadata.deletionTimestamp === undefined);
  const member = existing ?? waitingOf(state)[0] ?? failed[0];
  if (member !== undefined && member.progress.is !== "ready") {
    const { name } = member.sandbox.metadata;
    const object = { kind: "Sandbox", name };
    return { ...within(member.progress.why, `the sandbox ${name} is not available`), object };
  }
  if (error !== undefined) return problemOf(error);
  return used.size < mostSandboxes(claim.spec.replicas) ? undefined : tooManyFailed(state);
}

function tooManyFailed(state: ClaimState): Problem {
  const { name, namespace } = state.claim.metadata;
  const count = Math.max(1, state.used.size - deliveredNames(state).length);
  return {
    code: "SandboxNotReady",
    cause: `${count} sandboxes of the claim have failed, and no others are created while these exist`,
    hint: `See why they failed: kubectl get sandboxes -n ${namespace} -l ${labels.claimName}=${name}`,
  };
}

/** @param pauses in milliseconds from `now`; 0 means no pause */
function millisecondsUntilNext({ members, now }: ClaimState, deadline: Date, pauses: number[]): number {
  const times = members.flatMap(({ progress }) => (progress.is === "waiting" ? [progress.slowFrom] : []));
  const due = [deadline, ...times.filter((time) => time > now)];
  return Math.min(...due.map((time) => time.getTime() - now.getTime()), ...pauses.filter((pause) => pause > 0));
}
