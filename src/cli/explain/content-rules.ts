import { defined } from "../../base/defined.ts";
import { contentAnnotations, volumeFinalizers } from "../../kube/volumes/snapshots.ts";
import { explainDriverError, isBlockedByClass, recorded } from "./csi-texts.ts";
import { type Explanation, type Found, type Rule, completed, firstOf } from "./explanation.ts";
import { type EventFacts, firstSeen, lastSeen, secondsSince, valueOf } from "./facts.ts";
import {
  type ContentFacts,
  hasAnnotation,
  hasFinalizer,
  heldBy,
  isLate,
  lastEventOf,
  phaseOfContent,
  refersTo,
  retriedBy,
  sidecarSign,
  touch,
} from "./volume-facts.ts";

export function explainContent(facts: ContentFacts): Explanation {
  const found = explainDeletion(facts) ?? unbound(facts) ?? explainProgress(facts);
  const { content, now } = facts;
  return {
    ...completed(found, { since: content.metadata.creationTimestamp, retry: "None" }),
    phase: phaseOfContent(content, now),
    lastEvent: lastEventOf(facts.events),
  };
}

/** Explains what the deletion of a VolumeSnapshotContent waits for; undefined if it is not being deleted. */
export function explainDeletion(facts: ContentFacts): Explanation | undefined {
  const since = facts.content.metadata.deletionTimestamp;
  if (since === undefined) return undefined;
  return completed(deletionRules(facts) ?? ongoingDeletion(facts), {
    since,
    retry: retriedBy("The sidecar", facts.now),
  });
}

const deletionRules: Rule<ContentFacts> = firstOf(
  ({ content }) =>
    hasFinalizer(content, volumeFinalizers.content) ? undefined : heldBy(content.metadata.finalizers?.[0]),
  unansweredCreation,
  keptBySnapshot,
  vanishedSnapshot,
  failingDeletion,
  forgottenDeletion,
);

/** On purpose: without the driver's answer, the storage could keep a snapshot that nothing knows. */
function unansweredCreation({ content, now }: ContentFacts): Found | undefined {
  if (!hasAnnotation(content, contentAnnotations.beingCreated)) return undefined;
  return {
    state: isLate(content.metadata.deletionTimestamp, now) ? "stuck" : "waiting",
    reason: "CreationUnanswered",
    cause: `Its deletion waits until the driver ${content.spec.driver} answers whether it has taken the snapshot`,
    action: `Let the driver finish: read the log of its controller Pod. If the sidecar is older than 8.6 and no call is running, restart it (external-snapshotter#1388)`,
  };
}

/** The right order is: the VolumeSnapshot first. */
function keptBySnapshot({ content, snapshot }: ContentFacts): Found | undefined {
  const bound = valueOf(snapshot);
  if (bound === undefined || !refersTo(content, bound)) return undefined;
  if (bound.metadata.deletionTimestamp !== undefined || hasAnnotation(content, contentAnnotations.beingDeleted))
    return undefined;
  const { name, namespace = "" } = bound.metadata;
  return {
    reason: "ContentDeletedFirst",
    cause: `It was deleted before its VolumeSnapshot ${name} in namespace ${namespace}, and stays until that is deleted too`,
    retry: "The snapshot-controller lets it go as soon as the VolumeSnapshot is deleted",
    action: `Delete the VolumeSnapshot: kubectl delete volumesnapshot ${name} -n ${namespace}`,
    foundIn: `volumesnapshot/${name}`,
  };
}

/** external-snapshotter#336, #1112: the mark can only be set while the VolumeSnapshot exists. */
function vanishedSnapshot(facts: ContentFacts): Found | undefined {
  const { metadata, spec } = facts.content;
  if (hasAnnotation(facts.content, contentAnnotations.beingDeleted) || !isGone(facts) || isReserved(facts))
    return undefined;
  const effect =
    spec.deletionPolicy === "Retain"
      ? "the storage keeps the snapshot"
      : "the storage deletes the snapshot too; to keep it, set spec.deletionPolicy to Retain first";
  return {
    reason: "SnapshotVanishedFirst",
    cause: `Its VolumeSnapshot ${named(facts)} vanished before it, so that nothing marks it for the sidecar, and it stays for ever`,
    retry: "None: the sidecar waits for the mark of the snapshot-controller",
    action: `If nobody needs it, set the mark (${effect}): kubectl annotate volumesnapshotcontent ${metadata.name} ${contentAnnotations.beingDeleted}=yes`,
  };
}

function failingDeletion({ content, events }: ContentFacts): Found | undefined {
  const event = (valueOf(events) ?? []).find(({ reason }) => reason === "SnapshotDeleteError");
  if (event === undefined) return undefined;
  return {
    reason: "StorageDeleteFails",
    cause: `The driver ${content.spec.driver} cannot delete the snapshot ${recorded(content.status?.snapshotHandle)} in the storage: ${recorded(event.note)}`,
    since: firstSeen(event),
    action:
      "Read why in the log of the driver's controller Pod; volumes that were restored from it or a missing secret of the class are common causes",
  };
}

/** external-snapshotter#1388, until 8.6. */
function forgottenDeletion({ content, now }: ContentFacts): Found | undefined {
  const { deletionTimestamp } = content.metadata;
  if (!hasAnnotation(content, contentAnnotations.beingDeleted) || !isLate(deletionTimestamp, now)) return undefined;
  const { driver } = content.spec;
  return {
    reason: "DeletionForgotten",
    cause: `It is marked for deletion and the driver ${driver} has no call for it: the sidecar has forgotten it, as before 8.6 after a slow creation, or does not run`,
    retry: "The sidecar looks at it again within 15 minutes, or when it starts",
    action: `Upgrade external-snapshotter to 8.6 or later; until then, restart the sidecar of the driver ${driver}, or run: ${touch("volumesnapshotcontent", content)}`,
  };
}

function ongoingDeletion({ content }: ContentFacts): Found {
  const isKept = content.spec.deletionPolicy === "Retain";
  return {
    state: "waiting",
    reason: "Terminating",
    cause: `It is being deleted; ${isKept ? "the storage keeps the snapshot" : "the driver deletes the snapshot in the storage"}`,
  };
}

/** Recognizes a content without the VolumeSnapshot to which it refers. The controller never deletes one, to lose no data. */
function unbound(facts: ContentFacts): Found | undefined {
  if (!isGone(facts)) return undefined;
  const { metadata, spec, status } = facts.content;
  const { name = "", namespace = "" } = spec.volumeSnapshotRef;
  if (isReserved(facts)) {
    return {
      state: "waiting",
      reason: "AwaitsSnapshot",
      cause: `It is reserved for the VolumeSnapshot ${named(facts)}, which does not exist yet`,
      retry: "The snapshot-controller binds it when the VolumeSnapshot exists",
      action: `Create the VolumeSnapshot ${name} in namespace ${namespace} with spec.source.volumeSnapshotContentName: ${metadata.name}`,
    };
  }
  const handle = recorded(status?.snapshotHandle ?? spec.source?.snapshotHandle);
  const how = valueOf(facts.snapshot) === undefined ? "no longer exists" : "is another one of the same name";
  return {
    state: "degraded",
    reason: "OrphanedContent",
    cause: `Its VolumeSnapshot ${named(facts)} ${how}: the snapshot ${handle} stays in the storage and costs money. Its deletionPolicy is ${spec.deletionPolicy ?? "Delete"}`,
    retry: "None: an orphaned content is kept until somebody deletes it",
    action: `Adopt the snapshot with a new content (spec.source.snapshotHandle: ${handle}), or delete it in the storage too: kubectl patch volumesnapshotcontent ${metadata.name} --type merge -p '{"spec":{"deletionPolicy":"Delete"}}', then annotate it with ${contentAnnotations.beingDeleted}=yes and delete it`,
  };
}

function named({ content }: ContentFacts): string {
  const { name = "", namespace = "" } = content.spec.volumeSnapshotRef;
  return `${name} in namespace ${namespace}`;
}

/** Without a UID, it is for a VolumeSnapshot that is still to be created. */
function isReserved({ content }: ContentFacts): boolean {
  return (content.spec.volumeSnapshotRef.uid ?? "") === "";
}

/** Whether the VolumeSnapshot does not exist, or is another one of the same name. Not if it could not be read. */
function isGone(facts: ContentFacts): boolean {
  if ("unknown" in facts.snapshot) return false;
  const { value } = facts.snapshot;
  return value === undefined || (!isReserved(facts) && !refersTo(facts.content, value));
}

/** Explains how far a VolumeSnapshotContent has come that is not being deleted. Pure. */
export function explainProgress(facts: ContentFacts): Explanation {
  const { spec, metadata } = facts.content;
  const retry = retriedBy(`The csi-snapshotter of the driver ${spec.driver}`, facts.now);
  return completed(progressRules(facts) ?? noAnswer(facts), { since: metadata.creationTimestamp, retry });
}

const progressRules: Rule<ContentFacts> = firstOf(
  ready,
  stormed,
  missingClass,
  stillCopied,
  failed,
  beingCreated,
  justCreated,
);

function ready({ content }: ContentFacts): Found | undefined {
  if (content.status?.readyToUse !== true) return undefined;
  return {
    state: "healthy",
    cause: `It is ready: a claim can restore it. Its deletionPolicy is ${content.spec.deletionPolicy ?? "Delete"}`,
    retry:
      "None is needed. The sidecar does not look again, so a snapshot that is deleted in the storage still shows as ready",
  };
}

/** Sidecars before 6.3 and 8.0 repeated calls without pauses (external-snapshotter#778). */
function stormed({ content, events }: ContentFacts): Found | undefined {
  const event = (valueOf(events) ?? []).find((one) => isStorm(one));
  if (event === undefined || content.status?.error === undefined) return undefined;
  const found = explainDriverError(event.note ?? "");
  return {
    ...found,
    state: "stuck",
    reason: found.reason === "DriverError" ? "RetryStorm" : found.reason,
    since: firstSeen(event),
    cause: `The sidecar repeats the call without pauses (${event.deprecatedCount ?? 0} times). ${found.cause}`,
    action: `Upgrade csi-snapshotter of the driver ${content.spec.driver} to 8.0 or later, and let one snapshot of the volume follow the other`,
  };
}

/** At least ten times with less than 5 s between two. With pauses that double, ten take 17 minutes. */
function isStorm(event: EventFacts): boolean {
  const { deprecatedCount, deprecatedFirstTimestamp, type } = event;
  const count = deprecatedCount ?? 0;
  if (type !== "Warning" || count < 10 || deprecatedFirstTimestamp == null) return false;
  return (Date.parse(lastSeen(event)) - Date.parse(deprecatedFirstTimestamp)) / 1000 / (count - 1) < 5;
}

/** The sidecar needs the class until the snapshot is taken. */
function missingClass({ content, classes }: ContentFacts): Found | undefined {
  const { volumeSnapshotClassName: name, driver } = content.spec;
  const { error, snapshotHandle } = content.status ?? {};
  const isGone = valueOf(classes)?.some(({ metadata }) => metadata.name === name) === false;
  const isNeeded = snapshotHandle === undefined && error === undefined;
  if (name === undefined || !(isBlockedByClass(error?.message ?? "") || (isGone && isNeeded))) return undefined;
  return {
    reason: "SnapshotClassMissing",
    cause: `Its VolumeSnapshotClass ${name} was deleted before the snapshot was taken`,
    ...defined({ since: error?.time }),
    action: `Create the VolumeSnapshotClass ${name} again, with the driver ${driver}; it is not needed to delete the snapshot`,
  };
}

/** The point in time is fixed; the storage still copies the content. An old error stays meanwhile. */
function stillCopied(facts: ContentFacts): Found | undefined {
  if (facts.content.status?.snapshotHandle === undefined) return undefined;
  const error = failed(facts);
  if (error !== undefined && error.reason !== "DriverError" && error.reason !== "DriverUnanswered") return error;
  const old =
    error === undefined ? "" : `. An earlier error is still shown, which ends when it is ready: ${error.cause}`;
  return {
    state: "waiting",
    reason: "Copying",
    cause: `The snapshot is captured, and the storage is still copying its content${old}`,
    action: "Wait: the copy of much data takes minutes to hours; a freeze of the application can end now",
  };
}

function failed({ content }: ContentFacts): Found | undefined {
  const { message, time: since } = content.status?.error ?? {};
  return message === undefined ? undefined : { ...explainDriverError(message), since };
}

function beingCreated({ content, now }: ContentFacts): Found | undefined {
  if (!hasAnnotation(content, contentAnnotations.beingCreated)) return undefined;
  const found = {
    reason: "Creating",
    cause: `The driver ${content.spec.driver} has been asked to take the snapshot, and has not answered`,
  };
  if (secondsSince(content.metadata.creationTimestamp, now) <= createSeconds) return { ...found, state: "waiting" };
  return { ...found, action: "Read the log of the driver's controller Pod: the call takes unusually long" };
}

/** The time in which a driver takes a snapshot, with several calls of a minute. */
const createSeconds = 600;

function justCreated({ content, now }: ContentFacts): Found | undefined {
  if (secondsSince(content.metadata.creationTimestamp, now) > silenceSeconds) return undefined;
  const cause = `The sidecar of the driver ${content.spec.driver} has not asked the driver yet`;
  return { state: "waiting", reason: "Pending", cause };
}

/** A sidecar that works sets its annotation within a second. */
export const silenceSeconds = 30;

function noAnswer(facts: ContentFacts): Found {
  const { driver } = facts.content.spec;
  return {
    reason: "SidecarSilent",
    cause: `No sidecar of the driver ${driver} has processed it${sidecarSign(facts)}`,
    retry: "The sidecar (csi-snapshotter) processes it as soon as it runs and has its rights",
    action: `Run csi-snapshotter beside the controller of the driver ${driver}, with the rights that its manifests have; if it runs, read its log, then: ${touch("volumesnapshotcontent", facts.content)}`,
  };
}
