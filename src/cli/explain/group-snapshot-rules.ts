import * as z from "zod";
import { ObjectMeta } from "../../kube/object.ts";
import type { VolumeQuota } from "../../preflight/cluster-facts.ts";
import { isUsedUp } from "../../preflight/snapshot-checks.ts";
import { silenceSeconds } from "./content-progress.ts";
import { explainDriverError } from "./driver-errors.ts";
import { type Explanation, firstOf, nothingToDo, type Rule } from "./explanation.ts";
import { type EventFacts, type Read, valueOf } from "./facts.ts";
import { secondsSince } from "./time.ts";
import { lastEventOf } from "./volume-facts.ts";
import { isLate } from "./volume-phase.ts";
import { retriedBy } from "./volume-retry.ts";

/** The fields of a VolumeGroupSnapshot that explain its state (external-snapshotter v8.7). */
export const GroupSnapshot = z.looseObject({
  metadata: ObjectMeta,
  status: z
    .looseObject({
      boundVolumeGroupSnapshotContentName: z.string().optional(),
      readyToUse: z.boolean().optional(),
      creationTime: z.string().optional(),
      error: z.looseObject({ message: z.string().optional(), time: z.string().optional() }).optional(),
    })
    .optional(),
});
type GroupSnapshot = z.infer<typeof GroupSnapshot>;

export interface GroupFacts {
  now: Date;
  group: GroupSnapshot;
  /** Those of the group, the latest first. */
  events: Read<EventFacts[]>;
  /** The quotas of its namespace. */
  quotas: Read<VolumeQuota[]>;
}

/** Explains the state of a VolumeGroupSnapshot. Its members are explained one by one. Pure. */
export function explainGroup(facts: GroupFacts): Explanation {
  return { ...stateOf(facts), phase: phaseOfGroup(facts), lastEvent: lastEventOf(facts.events) };
}

function phaseOfGroup({ group: { metadata, status }, now }: GroupFacts): string {
  const { deletionTimestamp } = metadata;
  if (deletionTimestamp !== undefined) return isLate(deletionTimestamp, now) ? "DeleteBlocked" : "Deleting";
  if (status?.readyToUse === true) return "Ready";
  if (status?.error !== undefined) return "Failing";
  return status?.creationTime === undefined ? "Pending" : "Cut";
}

function stateOf(facts: GroupFacts): Explanation {
  return (
    rules(facts) ?? {
      ...common(facts),
      state: "waiting",
      reason: "Creating",
      cause: "The driver takes snapshots of all its claims",
      action: nothingToDo,
    }
  );
}

const rules: Rule<GroupFacts> = firstOf(deleting, ready, failed, usedUpQuota, silentController);

function deleting(facts: GroupFacts): Explanation | undefined {
  if (facts.group.metadata.deletionTimestamp === undefined) return undefined;
  const cause = "It is being deleted with its members";
  return { ...common(facts), state: "waiting", reason: "Terminating", cause, action: nothingToDo };
}

function ready(facts: GroupFacts): Explanation | undefined {
  if (facts.group.status?.readyToUse !== true) return undefined;
  const cause = "All its members are ready";
  return { ...common(facts), state: "healthy", cause, retry: "None is needed", action: nothingToDo };
}

/** The snapshot-controller only logs that a quota refuses a member (v8.7, createIndividualSnapshotForGroupSnapshot). */
function usedUpQuota(facts: GroupFacts): Explanation | undefined {
  const found = (valueOf(facts.quotas) ?? []).find((one) => one.resource.includes("volumesnapshots") && isUsedUp(one));
  if (found === undefined) return undefined;
  const { quota, resource, hard, used } = found;
  const { namespace = "" } = facts.group.metadata;
  return {
    ...common(facts),
    state: "stuck",
    reason: "QuotaExceeded",
    cause: `Its members cannot be created: the ResourceQuota ${quota} allows ${hard} of ${resource}, and ${used} are used`,
    action: `Delete VolumeSnapshots that are no longer needed, or raise the quota: kubectl describe resourcequota ${quota} -n ${namespace}`,
  };
}

function silentController(facts: GroupFacts): Explanation | undefined {
  const { group, events, now } = facts;
  const isSilent = group.status === undefined && (valueOf(events) ?? []).length === 0;
  if (!isSilent || secondsSince(group.metadata.creationTimestamp, now) <= silenceSeconds) return undefined;
  return {
    ...common(facts),
    state: "stuck",
    reason: "SnapshotControllerSilent",
    cause: "The snapshot-controller has not processed it",
    action:
      "Start the snapshot-controller and the sidecar of the driver with --feature-gates=CSIVolumeGroupSnapshot=true, which is off before 8.7",
  };
}

function common({ group: { metadata, status }, now }: GroupFacts) {
  const since = status?.error?.time ?? metadata.deletionTimestamp ?? metadata.creationTimestamp;
  return { since, retry: retriedBy("The snapshot-controller", now) };
}

function failed(facts: GroupFacts): Explanation | undefined {
  const message = facts.group.status?.error?.message ?? "";
  if (message === "") return undefined;
  const known = blocks.find(({ pattern }) => pattern.test(message));
  if (known !== undefined)
    return { ...common(facts), state: "stuck", reason: known.reason, cause: known.cause, action: known.action };
  const { since } = common(facts);
  return explainDriverError({ message, since, who: "The snapshot-controller", now: facts.now });
}

/** The words of the snapshot-controller (pkg/common-controller/groupsnapshot_controller_helper.go). */
const blocks: readonly { pattern: RegExp; reason: string; cause: string; action: string }[] = [
  {
    pattern: /cannot find default group snapshot class/,
    reason: "NoDefaultClass",
    cause: "It names no VolumeGroupSnapshotClass, and its driver has no default one",
    action: "Set spec.volumeGroupSnapshotClassName: kubectl get volumegroupsnapshotclass",
  },
  {
    pattern: /\d+ default snapshot classes were found/,
    reason: "SeveralDefaultClasses",
    cause: "Its driver has several default VolumeGroupSnapshotClasses",
    action:
      "Set spec.volumeGroupSnapshotClassName, or let one class be the default: kubectl get volumegroupsnapshotclass",
  },
  {
    pattern: /not applied to any PVC/,
    reason: "SourceMissing",
    cause: "Its selector matches no PersistentVolumeClaim",
    action: "Correct the labels of the claims, or delete it and create it with another spec.source.selector",
  },
  {
    pattern: /not yet bound to a PV, will not attempt/,
    reason: "SourceNotBound",
    cause: "One of its claims is not bound to a PersistentVolume",
    action: "Let a Pod use the claim, or take its label away: kubectl get pvc shows the Pending ones",
  },
];
