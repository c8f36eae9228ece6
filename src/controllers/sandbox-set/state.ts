import type { FoundField } from "../../api/fields/find-ignored.ts";
import type { SandboxSet, SandboxSetSpec, SandboxSetStatus } from "../../api/kinds/sandbox-set.ts";
import type { SandboxTemplate } from "../../api/kinds/sandbox-template.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, labels, scaleDownOwner } from "../../api/names/labels.ts";
import type { SetRevision } from "../../api/set/set-revision.ts";
import { hasEnded, isServing } from "../../api/state/sandbox.ts";
import { RametError } from "../../base/errors.ts";
import type { Transition } from "../../kube/events.ts";
import type { Backoff } from "./failures.ts";

export interface SetState {
  set: SandboxSet;
  /** The source of new sandboxes, or why none can be created. */
  revision: SetRevision | { problem: RametError };
  /** Hashes of revisions that differ from the current one only by the engine of the memory that fills the set. */
  sameContent: ReadonlySet<string>;
  bounds: Bounds | { problem: RametError };
  /** The sandboxes that the set owns. Claimed ones have another owner. */
  members: Member[];
  /** The available ones whose nodes are about to end them. */
  departing: Sandbox[];
  /** Sandboxes that this process created and its cache does not show yet. */
  unseen: Unseen[];
  /** Whether the cache does not show a deletion by this process yet. */
  deletionsUnseen: boolean;
  /** The SandboxTemplates written for revisions of this set. */
  templates: SandboxTemplate[];
  backoff: Backoff;
  /** The fields without effect. */
  ignored: FoundField[];
  now: Date;
}

interface Unseen {
  revisionHash: string;
}

export interface Member {
  sandbox: Sandbox;
  state: MemberState;
  revisionHash: string | undefined;
  /** Whether its cell image is an earlier one than that of new sandboxes, or its node is about to end it. */
  needsReplacement: boolean;
}

/**
 * `creating` and `available` sandboxes form the pool. `used`: in use although the set is still its owner, so never changed.
 * `dead`: ended. `victim`: locked for deletion by a controller that then stopped. `leaving`: being deleted.
 */
type MemberState = "creating" | "available" | "used" | "dead" | "victim" | "leaving";

export type SetAction =
  | { do: "writeTemplate"; revision: SetRevision }
  | { do: "markTemplate"; template: SandboxTemplate; candidate: boolean }
  | { do: "create"; count: number; revision: SetRevision }
  /** Locks the sandbox against claims, and deletes it. */
  | { do: "retire"; sandbox: Sandbox; why: "scaleDown" | "update" }
  | { do: "remove"; sandbox: Sandbox; why: "dead" | "victim" };

export interface SetPlan {
  actions: SetAction[];
  status: SandboxSetStatus;
  transitions: Transition[];
  requeueAfterMilliseconds?: number;
}

export interface Bounds {
  /** Maximum number of sandboxes that start at the same time. */
  scale: number;
  /** Maximum number of unavailable sandboxes during a roll. 0: new sandboxes are created before old ones are deleted. */
  update: number;
}

/** @throws RametError `InvalidArgument`, naming the field */
export function boundsOf({ replicas, scaleStrategy, updateStrategy }: SandboxSetSpec): Bounds {
  const maxUnavailable = scaleStrategy?.maxUnavailable;
  const scale =
    maxUnavailable === undefined
      ? Number.POSITIVE_INFINITY
      : countOf(maxUnavailable, replicas, "spec.scaleStrategy.maxUnavailable");
  if (scale === 0 && replicas > 0) {
    throw new RametError("InvalidArgument", "spec.scaleStrategy.maxUnavailable is 0, so no sandbox can start", {
      hint: "Set it to 1 or more, or remove it to start all sandboxes at the same time",
    });
  }
  return {
    scale,
    update: countOf(
      updateStrategy?.maxUnavailable ?? defaultUnavailable(replicas),
      replicas,
      "spec.updateStrategy.maxUnavailable",
    ),
  };
}

/** A set of one is not left without a ready sandbox for a new one that may not start. */
function defaultUnavailable(replicas: number): number | string {
  return replicas === 1 ? 0 : "20%";
}

/**
 * A number of sandboxes, given as a number or as a percentage of `total`. Percentages are rounded up, as in OpenKruise Agents.
 * @param field its path, for the error message
 * @throws RametError `InvalidArgument`
 */
export function countOf(value: number | string, total: number, field: string): number {
  if (typeof value === "number" && value >= 0) return value;
  const percent = typeof value === "string" ? /^(\d{1,9})%$/.exec(value)?.[1] : undefined;
  if (percent !== undefined) return Math.ceil((Number(percent) * total) / 100);
  throw new RametError("InvalidArgument", `${field} is neither a number nor a percentage: ${JSON.stringify(value)}`, {
    hint: 'Write a number of at least 0, like 2, or a quoted percentage, like "20%"',
  });
}

/** The unclaimed sandboxes of a set, counted by state. */
export type Pool = ReturnType<typeof poolOf>;

export function poolOf({ set, revision, sameContent, members, unseen }: SetState) {
  // Without a known revision, no sandbox counts as outdated.
  const hash = "problem" in revision ? set.status?.updateRevision : revision.hash;
  const isOfRevision = ({ revisionHash }: { revisionHash: string | undefined }): boolean =>
    hash === undefined || revisionHash === hash;
  const isUpdated = (member: Member): boolean => isOfRevision(member) && !member.needsReplacement;
  const pooled = members.filter(({ state }) => state === "creating" || state === "available");
  const available = pooled.filter(({ state }) => state === "available");
  return {
    replicas: set.spec.replicas,
    /** Created, but not shown by the cache yet. They count as creating. */
    unseen: unseen.length,
    creating: pooled.length - available.length + unseen.length,
    available: available.length,
    total: pooled.length + unseen.length,
    updated: pooled.filter(isUpdated).length + unseen.filter(isOfRevision).length,
    updatedAvailable: available.filter(isUpdated).length,
    /** The creating and available sandboxes that the cache shows. */
    members: pooled,
    isUpdated,
    /** Whether all have the content of the current revision, so that others are old only by their engine or their node. */
    isContentUpdated: pooled.every((one) => isOfRevision(one) || sameContent.has(one.revisionHash ?? "")),
  };
}

/**
 * @param isLeaving whether this process has requested its deletion
 * @param needsReplacement whether its engine is an earlier one, although no memory that it was cloned from needs that, or its node leaves
 */
export function memberOf(sandbox: Sandbox, isLeaving: boolean, needsReplacement = false): Member {
  const state = isLeaving ? "leaving" : stateOf(sandbox);
  return { sandbox, state, revisionHash: sandbox.metadata.labels?.[labels.templateHash], needsReplacement };
}

function stateOf(sandbox: Sandbox): MemberState {
  const { metadata } = sandbox;
  if (metadata.deletionTimestamp !== undefined) return "leaving";
  if (metadata.annotations?.[annotations.owner] === scaleDownOwner) return "victim";
  if (isTaken(sandbox)) return "used";
  if (hasEnded(sandbox)) return "dead";
  return isServing(sandbox) ? "available" : "creating";
}

/** A locked, paused or kept sandbox is in use. */
function isTaken({ metadata, spec, status }: Sandbox): boolean {
  return (
    metadata.annotations?.[annotations.lock] !== undefined ||
    metadata.labels?.[labels.sandboxClaimed] === "true" ||
    metadata.labels?.[labels.reservedFailedSandbox] !== undefined ||
    spec.paused === true ||
    userPhases.has(status?.phase ?? "")
  );
}

/** Only users bring a sandbox into these phases. */
const userPhases: ReadonlySet<string> = new Set(["Paused", "Resuming", "Upgrading", "Recycling"]);
