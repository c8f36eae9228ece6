import type { Member, SetState } from "./state.ts";

/** The unclaimed sandboxes of a set, by what a decision has to tell apart. */
export interface Pool {
  replicas: number;
  /** Not shown by the cache yet, but made: they count as creating. */
  unseen: number;
  creating: number;
  available: number;
  total: number;
  updated: number;
  updatedAvailable: number;
  /** Those that can be acted upon. */
  members: Member[];
  isUpdated: (member: Member) => boolean;
}

export function poolOf({ set, revision, members, unseen }: SetState): Pool {
  // While no revision can be made out, nothing is older than another.
  const hash = "problem" in revision ? set.status?.updateRevision : revision.hash;
  const isUpdated = ({ revisionHash }: { revisionHash: string | undefined }): boolean =>
    hash === undefined || revisionHash === hash;
  const pooled = members.filter(({ state }) => state === "creating" || state === "available");
  const available = pooled.filter(({ state }) => state === "available");
  return {
    replicas: set.spec.replicas,
    unseen: unseen.length,
    creating: pooled.length - available.length + unseen.length,
    available: available.length,
    total: pooled.length + unseen.length,
    updated: pooled.filter(isUpdated).length + unseen.filter(isUpdated).length,
    updatedAvailable: available.filter(isUpdated).length,
    members: pooled,
    isUpdated,
  };
}
