import type { GroupSnapshot } from "../../kube/volumes/snapshots.ts";
import type { VolumeQuota } from "../../preflight/cluster-facts.ts";
import { isUsedUp } from "../../preflight/snapshot-checks.ts";
import { silenceSeconds } from "./content-rules.ts";
import { type Block, blockIn, explainDriverError } from "./csi-texts.ts";
import { type Explanation, type Found, type Rule, completed, firstOf } from "./explanation.ts";
import { type EventFacts, type Read, secondsSince, valueOf } from "./facts.ts";
import { lastEventOf, phaseByStatus, phaseOfDeletion, retriedBy } from "./volume-facts.ts";

export interface GroupFacts {
  now: Date;
  group: GroupSnapshot;
  /** Those of the group, the latest first. */
  events: Read<EventFacts[]>;
  quotas: Read<VolumeQuota[]>;
}

/** Explains the state of a VolumeGroupSnapshot. Its members are explained one by one. Pure. */
export function explainGroup(facts: GroupFacts): Explanation {
  const { metadata, status } = facts.group;
  const since = status?.error?.time ?? metadata.deletionTimestamp ?? metadata.creationTimestamp;
  const retry = retriedBy("The snapshot-controller", facts.now);
  return {
    ...completed(rules(facts) ?? creating, { since, retry }),
    phase: phaseOfGroup(facts),
    lastEvent: lastEventOf(facts.events),
  };
}

function phaseOfGroup({ group: { metadata, status }, now }: GroupFacts): string {
  if (metadata.deletionTimestamp !== undefined) return phaseOfDeletion(metadata.deletionTimestamp, now);
  return status?.readyToUse === true ? "Ready" : phaseByStatus(status);
}

const creating: Found = {
  state: "waiting",
  reason: "Creating",
  cause: "The driver takes snapshots of all its claims",
};

const rules: Rule<GroupFacts> = firstOf(settled, failed, usedUpQuota, silentController);

function settled({ group: { metadata, status } }: GroupFacts): Found | undefined {
  if (metadata.deletionTimestamp !== undefined)
    return { state: "waiting", reason: "Terminating", cause: "It is being deleted with its members" };
  return status?.readyToUse === true ? { state: "healthy", cause: "All its members are ready" } : undefined;
}

function failed({ group }: GroupFacts): Found | undefined {
  const message = group.status?.error?.message ?? "";
  if (message === "") return undefined;
  const reason = blockIn(message);
  const known = reason && blocks[reason];
  return known === undefined ? explainDriverError(message) : { reason, ...known };
}

const blocks: Partial<Record<Block, Found>> = {
  NoDefaultClass: {
    cause: "It names no VolumeGroupSnapshotClass, and its driver has no default one",
    action: "Set spec.volumeGroupSnapshotClassName: kubectl get volumegroupsnapshotclass",
  },
  SeveralDefaultClasses: {
    cause: "Its driver has several default VolumeGroupSnapshotClasses",
    action:
      "Set spec.volumeGroupSnapshotClassName, or let one class be the default: kubectl get volumegroupsnapshotclass",
  },
  SourceMissing: {
    cause: "Its selector matches no PersistentVolumeClaim",
    action: "Correct the labels of the claims, or delete it and create it with another spec.source.selector",
  },
  SourceNotBound: {
    cause: "One of its claims is not bound to a PersistentVolume",
    action: "Let a Pod use the claim, or take its label away: kubectl get pvc shows the Pending ones",
  },
};

/** The snapshot-controller only logs that a quota refuses a member (v8.7, createIndividualSnapshotForGroupSnapshot). */
function usedUpQuota({ quotas, group }: GroupFacts): Found | undefined {
  const found = valueOf(quotas)?.find((one) => one.resource.includes("volumesnapshots") && isUsedUp(one));
  if (found === undefined) return undefined;
  const { quota, resource, hard, used } = found;
  return {
    reason: "QuotaExceeded",
    cause: `Its members cannot be created: the ResourceQuota ${quota} allows ${hard} of ${resource}, and ${used} are used`,
    action: `Delete VolumeSnapshots that are no longer needed, or raise the quota: kubectl describe resourcequota ${quota} -n ${group.metadata.namespace ?? ""}`,
  };
}

function silentController({ group, events, now }: GroupFacts): Found | undefined {
  const isSilent = group.status === undefined && (valueOf(events) ?? []).length === 0;
  if (!isSilent || secondsSince(group.metadata.creationTimestamp, now) <= silenceSeconds) return undefined;
  return {
    reason: "SnapshotControllerSilent",
    cause: "The snapshot-controller has not processed it",
    action:
      "Start the snapshot-controller and the sidecar of the driver with --feature-gates=CSIVolumeGroupSnapshot=true, which is off before 8.7",
  };
}
