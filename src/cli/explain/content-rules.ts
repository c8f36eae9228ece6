import { type Explanation, firstOf, nothingToDo, type Rule } from "./explanation.ts";
import { type EventFacts, lastSeen, valueOf } from "./facts.ts";
import { explainProgress } from "./content-progress.ts";
import { recorded } from "./recorded-text.ts";
import { type ContentFacts, hasAnnotation, hasFinalizer, lastEventOf, refersTo } from "./volume-facts.ts";
import { contentAnnotations, volumeFinalizers } from "../../kube/volumes/snapshots.ts";
import { isLate, phaseOfContent } from "./volume-phase.ts";
import { retriedBy, touch } from "./volume-retry.ts";

/** Explains the state of a VolumeSnapshotContent. Pure. */
export function explainContent(facts: ContentFacts): Explanation {
  const found = deleting(facts) ?? unbound(facts) ?? explainProgress(facts);
  return { ...found, phase: phaseOfContent(facts.content, facts.now), lastEvent: lastEventOf(facts.events) };
}

/** Explains what the deletion of a VolumeSnapshotContent waits for; undefined if it is not being deleted. */
export const deleting: Rule<ContentFacts> = firstOf(
  foreignFinalizer,
  unansweredCreation,
  keptBySnapshot,
  vanishedSnapshot,
  failingDeletion,
  forgottenDeletion,
  ongoingDeletion,
);

function foreignFinalizer({ content }: ContentFacts): Explanation | undefined {
  const { deletionTimestamp, finalizers = [] } = content.metadata;
  const [foreign] = finalizers;
  if (deletionTimestamp === undefined || hasFinalizer(content, volumeFinalizers.content) || foreign === undefined)
    return undefined;
  return {
    state: "stuck",
    cause: `Its deletion waits for the finalizer ${foreign}`,
    reason: "Terminating",
    since: deletionTimestamp,
    retry: "The controller of the finalizer removes it when it has cleaned up",
    action: `Start the controller of ${foreign}`,
  };
}

/** On purpose: without the driver's answer, the storage could keep a snapshot that nothing knows. */
function unansweredCreation({ content, now }: ContentFacts): Explanation | undefined {
  const since = content.metadata.deletionTimestamp;
  if (since === undefined || !hasAnnotation(content, contentAnnotations.beingCreated)) return undefined;
  return {
    state: isLate(since, now) ? "stuck" : "waiting",
    cause: `Its deletion waits until the driver ${content.spec.driver} answers whether it has taken the snapshot`,
    reason: "CreationUnanswered",
    since,
    retry: retriedBy("The sidecar", now),
    action: `Let the driver finish: read the log of its controller Pod. If the sidecar is older than 8.6 and no call is running, restart it (external-snapshotter#1388)`,
  };
}

/** The right order is: the VolumeSnapshot first. */
function keptBySnapshot({ content, snapshot }: ContentFacts): Explanation | undefined {
  const since = content.metadata.deletionTimestamp;
  const bound = valueOf(snapshot);
  if (since === undefined || bound === undefined || !refersTo(content, bound)) return undefined;
  if (bound.metadata.deletionTimestamp !== undefined || hasAnnotation(content, contentAnnotations.beingDeleted))
    return undefined;
  const { name, namespace = "" } = bound.metadata;
  return {
    state: "stuck",
    cause: `It was deleted before its VolumeSnapshot ${name} in namespace ${namespace}, and stays until that is deleted too`,
    reason: "ContentDeletedFirst",
    since,
    retry: "The snapshot-controller lets it go as soon as the VolumeSnapshot is deleted",
    action: `Delete the VolumeSnapshot: kubectl delete volumesnapshot ${name} -n ${namespace}`,
    foundIn: `volumesnapshot/${name}`,
  };
}

/** external-snapshotter#336, #1112: the mark can only be set while the VolumeSnapshot exists. */
function vanishedSnapshot({ content, snapshot }: ContentFacts): Explanation | undefined {
  const since = content.metadata.deletionTimestamp;
  const { uid, name = "", namespace = "" } = content.spec.volumeSnapshotRef;
  if (since === undefined || hasAnnotation(content, contentAnnotations.beingDeleted) || !isGone({ content, snapshot }))
    return undefined;
  if (uid === undefined || uid === "") return undefined;
  const { deletionPolicy = "Delete" } = content.spec;
  const effect =
    deletionPolicy === "Retain"
      ? "the storage keeps the snapshot"
      : "the storage deletes the snapshot too; to keep it, set spec.deletionPolicy to Retain first";
  return {
    state: "stuck",
    cause: `Its VolumeSnapshot ${name} in namespace ${namespace} vanished before it, so that nothing marks it for the sidecar, and it stays for ever`,
    reason: "SnapshotVanishedFirst",
    since,
    retry: "None: the sidecar waits for the mark of the snapshot-controller",
    action: `If nobody needs it, set the mark (${effect}): kubectl annotate volumesnapshotcontent ${content.metadata.name} ${contentAnnotations.beingDeleted}=yes`,
  };
}

function failingDeletion({ content, events, now }: ContentFacts): Explanation | undefined {
  const since = content.metadata.deletionTimestamp;
  const event = (valueOf(events) ?? []).find(({ reason }) => reason === "SnapshotDeleteError");
  if (since === undefined || event === undefined) return undefined;
  return {
    state: "stuck",
    cause: `The driver ${content.spec.driver} cannot delete the snapshot ${recorded(content.status?.snapshotHandle)} in the storage: ${recorded(event.note)}`,
    reason: "StorageDeleteFails",
    since: firstSeen(event),
    retry: retriedBy("The sidecar", now),
    action:
      "Read why in the log of the driver's controller Pod; volumes that were restored from it or a missing secret of the class are common causes",
  };
}

/** external-snapshotter#1388, until 8.6. */
function forgottenDeletion({ content, now }: ContentFacts): Explanation | undefined {
  const since = content.metadata.deletionTimestamp;
  if (since === undefined || !hasAnnotation(content, contentAnnotations.beingDeleted) || !isLate(since, now))
    return undefined;
  return {
    state: "stuck",
    cause: `It is marked for deletion and the driver ${content.spec.driver} has no call for it: the sidecar has forgotten it, as before 8.6 after a slow creation, or does not run`,
    reason: "DeletionForgotten",
    since,
    retry: "The sidecar looks at it again within 15 minutes, or when it starts",
    action: `Upgrade external-snapshotter to 8.6 or later; until then, restart the sidecar of the driver ${content.spec.driver}, or run: ${touch("volumesnapshotcontent", { name: content.metadata.name })}`,
  };
}

function ongoingDeletion({ content, now }: ContentFacts): Explanation | undefined {
  const since = content.metadata.deletionTimestamp;
  if (since === undefined) return undefined;
  return {
    state: "waiting",
    cause: `It is being deleted; ${content.spec.deletionPolicy === "Retain" ? "the storage keeps the snapshot" : "the driver deletes the snapshot in the storage"}`,
    reason: "Terminating",
    since,
    retry: retriedBy("The sidecar", now),
    action: nothingToDo,
  };
}

/** Recognizes a content without the VolumeSnapshot to which it refers. The controller never deletes one, to lose no data. */
function unbound({ content, snapshot }: ContentFacts): Explanation | undefined {
  const { name = "", namespace = "", uid } = content.spec.volumeSnapshotRef;
  if (!isGone({ content, snapshot })) return undefined;
  const isReserved = uid === undefined || uid === "";
  const { metadata, spec, status } = content;
  const handle = recorded(status?.snapshotHandle ?? spec.source?.snapshotHandle);
  const { deletionPolicy = "Delete" } = spec;
  if (isReserved) {
    return {
      state: "waiting",
      cause: `It is reserved for the VolumeSnapshot ${name} in namespace ${namespace}, which does not exist yet`,
      reason: "AwaitsSnapshot",
      since: metadata.creationTimestamp,
      retry: "The snapshot-controller binds it when the VolumeSnapshot exists",
      action: `Create the VolumeSnapshot ${name} in namespace ${namespace} with spec.source.volumeSnapshotContentName: ${metadata.name}`,
    };
  }
  return {
    state: "degraded",
    cause: `Its VolumeSnapshot ${name} in namespace ${namespace} ${valueOf(snapshot) === undefined ? "no longer exists" : "is another one of the same name"}: the snapshot ${handle} stays in the storage and costs money. Its deletionPolicy is ${deletionPolicy}`,
    reason: "OrphanedContent",
    since: metadata.creationTimestamp,
    retry: "None: an orphaned content is kept until somebody deletes it",
    action: `Adopt the snapshot with a new content (spec.source.snapshotHandle: ${handle}), or delete it in the storage too: kubectl patch volumesnapshotcontent ${metadata.name} --type merge -p '{"spec":{"deletionPolicy":"Delete"}}', then annotate it with ${contentAnnotations.beingDeleted}=yes and delete it`,
  };
}

/** Whether the VolumeSnapshot does not exist, or is another one of the same name. Not if it could not be read. */
function isGone({ content, snapshot }: Pick<ContentFacts, "content" | "snapshot">): boolean {
  if ("unknown" in snapshot) return false;
  const { uid } = content.spec.volumeSnapshotRef;
  if (snapshot.value === undefined) return true;
  return uid !== undefined && uid !== "" && snapshot.value.metadata.uid !== uid;
}

function firstSeen(event: EventFacts): string {
  return event.deprecatedFirstTimestamp ?? lastSeen(event);
}
