import type { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import { reported, transitionsOf } from "./conditions.ts";
import { type Member, type Pool, type SetAction, type SetPlan, type SetState, poolOf } from "./state.ts";

/**
 * Plans a set. A pure function. The rules are those of OpenKruise Agents (pkg/controller/sandboxset); docs/tasks/sets.md lists
 * where they are stricter.
 */
export function planSet(state: SetState): SetPlan {
  const pool = poolOf(state);
  const status = statusOf(state, pool);
  const { waitMilliseconds } = state.backoff;
  return {
    actions: [...planTemplates(state), ...planRemovals(state), ...planPool(state, pool)],
    status,
    transitions: transitionsOf(state.set.status?.conditions, status.conditions ?? []),
    ...(waitMilliseconds > 0 && { requeueAfterMilliseconds: waitMilliseconds }),
  };
}

/** Deletes ended sandboxes, and those that an earlier controller locked for deletion. */
function planRemovals({ members }: SetState): SetAction[] {
  return members.flatMap(({ sandbox, state }) =>
    state === "dead" || state === "victim" ? [{ do: "remove", sandbox, why: state }] : [],
  );
}

function planPool(state: SetState, pool: Pool): SetAction[] {
  const missing = pool.replicas + surgeOf(state, pool) - pool.total;
  if (missing > 0) return planScaleUp(state, pool, missing);
  // Acting before the cache shows earlier actions would repeat them.
  if (pool.unseen > 0 || state.deletionsUnseen) return [];
  return missing < 0 ? planScaleDown(state, pool, -missing) : planRoll(state, pool);
}

function planScaleUp(state: SetState, pool: Pool, missing: number): SetAction[] {
  const { revision, bounds, backoff } = state;
  if ("problem" in revision || "problem" in bounds || backoff.waitMilliseconds > 0) return [];
  const count = Math.min(missing, bounds.scale - pool.creating, provenLimit(state, pool));
  return count > 0 ? [{ do: "create", count, revision }] : [];
}

/** After two consecutive failures, one sandbox is tried at a time; each one that becomes available allows two more. */
function provenLimit({ backoff: { inARow, lastAt }, members }: SetState, pool: Pool): number {
  if (inARow < 2 || lastAt === undefined) return Number.POSITIVE_INFINITY;
  // Creation timestamps have a resolution of seconds.
  const since = Math.floor(lastAt.getTime() / 1000) * 1000;
  const proven = members.filter(
    (member) =>
      member.state === "available" &&
      pool.isUpdated(member) &&
      Date.parse(member.sandbox.metadata.creationTimestamp) >= since,
  );
  return 1 + 2 * proven.length - pool.creating;
}

function planScaleDown(state: SetState, pool: Pool, count: number): SetAction[] {
  const kept = "problem" in state.bounds ? pool.replicas : minimumAvailable(pool, state.bounds.update);
  const ordered = [...pool.members].sort(removalOrder(pool.isUpdated));
  // Keeps the minimum number of available sandboxes while others can be deleted instead.
  let spare = Math.max(0, pool.available - kept);
  const [first, later] = partition(ordered, (member) => member.state === "creating" || spare-- > 0);
  return [...first, ...later].slice(0, count).map(({ sandbox }) => ({ do: "retire", sandbox, why: "scaleDown" }));
}

/** Replaces all old sandboxes that are not ready, and as many ready ones as `maxUnavailable` allows. */
function planRoll(state: SetState, pool: Pool): SetAction[] {
  if ("problem" in state.revision || "problem" in state.bounds) return [];
  const old = pool.members.filter((member) => !pool.isUpdated(member)).sort(removalOrder(pool.isUpdated));
  const [creating, available] = partition(old, ({ state: is }) => is === "creating");
  const spare = Math.max(0, pool.available - minimumAvailable(pool, maxUnavailable(state.bounds.update, pool)));
  return [...creating, ...available.slice(0, spare)].map(({ sandbox }) => ({ do: "retire", sandbox, why: "update" }));
}

/** The minimum number of available sandboxes during a roll. */
function minimumAvailable({ replicas }: Pool, unavailable: number): number {
  return Math.max(0, replicas - unavailable);
}

/** An upgrade of the runtime and a node that leaves are no changes of the user's, so they make no sandbox unavailable. */
function maxUnavailable(update: number, { isContentUpdated }: Pool): number {
  return isContentUpdated ? 0 : update;
}

/** With a `maxUnavailable` of 0, a roll creates new sandboxes first, up to a fifth of the replicas at a time. */
function surgeOf({ bounds, revision }: SetState, pool: Pool): number {
  if ("problem" in bounds || "problem" in revision || maxUnavailable(bounds.update, pool) > 0) return 0;
  return Math.min(pool.total - pool.updated, Math.ceil(pool.replicas / 5));
}

function planTemplates({ revision, templates, members }: SetState): SetAction[] {
  if ("problem" in revision) return [];
  const isWritten = !revision.materialised || templates.some(({ metadata }) => metadata.name === revision.templateName);
  const used = new Set(members.map(({ revisionHash }) => `${revisionHash}`));
  const isUsed = ({ metadata: { name } }: SandboxTemplate): boolean =>
    name === revision.templateName || used.has(name.slice(name.lastIndexOf("-") + 1));
  const unused = templates.filter((template) => !isUsed(template)).sort(youngestFirst);
  const candidates = new Set(unused.slice(historyLimit));
  const marks = templates
    .filter((template) => isMarked(template) !== candidates.has(template))
    .map((template) => ({ do: "markTemplate", template, candidate: candidates.has(template) }) as const);
  return [...(isWritten ? [] : [{ do: "writeTemplate", revision } as const]), ...marks];
}

const historyLimit = 10;

function isMarked({ metadata }: SandboxTemplate): boolean {
  return metadata.annotations?.[annotations.cleanupCandidate] !== undefined;
}

function youngestFirst(a: SandboxTemplate, b: SandboxTemplate): number {
  const [older, younger] = [a.metadata.creationTimestamp, b.metadata.creationTimestamp];
  return younger.localeCompare(older) || a.metadata.name.localeCompare(b.metadata.name);
}

function statusOf(state: SetState, pool: Pool): SetPlan["status"] {
  const { set, revision } = state;
  const { ramet: _, ...before } = set.status ?? {};
  const { name } = set.metadata;
  const revisions =
    "problem" in revision ? {} : { updateRevision: revision.hash, currentRevision: revision.templateName };
  return {
    ...before,
    ...revisions,
    replicas: pool.total,
    availableReplicas: pool.available,
    updatedReplicas: pool.updated,
    updatedAvailableReplicas: pool.updatedAvailable,
    selector: `${labels.sandboxPool}=${name}`,
    ...reported(state, pool),
  };
}

function partition<T>(all: readonly T[], belongs: (one: T) => boolean): [T[], T[]] {
  const groups = Map.groupBy(all, belongs);
  return [groups.get(true) ?? [], groups.get(false) ?? []];
}

/**
 * The order in which sandboxes are deleted when a set shrinks, as in OpenKruise Agents: of an old revision, then Pending, then
 * recycled (most often first), then running and not ready, then the others; the oldest of each first.
 */
function removalOrder(isUpdated: (member: Member) => boolean): (a: Member, b: Member) => number {
  const ranks = (member: Member): number[] => [
    isUpdated(member) ? 1 : 0,
    classOf(member),
    -(member.sandbox.status?.recycledCount ?? 0),
  ];
  return (a, b) => {
    const [first, second] = [ranks(a), ranks(b)];
    const at = first.findIndex((rank, index) => rank !== second[index]);
    if (at >= 0) return (first[at] ?? 0) - (second[at] ?? 0);
    return ageKey(a) < ageKey(b) ? -1 : 1;
  };
}

function classOf({ sandbox, state }: Member): number {
  const { phase, recycledCount = 0 } = sandbox.status ?? {};
  if (phase === undefined || phase === "Pending") return 0;
  if (recycledCount > 0) return 1;
  return state === "creating" ? 2 : 3;
}

/** A stable order, also for sandboxes created in the same second. */
function ageKey({ sandbox: { metadata } }: Member): string {
  return `${metadata.creationTimestamp} ${metadata.uid}`;
}
