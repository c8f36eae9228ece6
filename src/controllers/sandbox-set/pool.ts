import { hasEnded, isServing } from "../../api/state/sandbox.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, labels, scaleDownOwner } from "../../api/names/labels.ts";
import type { Member, MemberState, SetState } from "./state.ts";

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
