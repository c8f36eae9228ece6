import { explainProgress, silenceSeconds } from "./content-progress.ts";
import { explainDriverError } from "./driver-errors.ts";
import { type Explanation, firstOf, nothingToDo, type Rule } from "./explanation.ts";
import { valueOf } from "./facts.ts";
import { recorded } from "./recorded-text.ts";
import { blockedSnapshot } from "./snapshot-block.ts";
import { deletingSnapshot } from "./snapshot-deletion.ts";
import { controllerSign } from "./snapshot-programs.ts";
import { secondsSince } from "./time.ts";
import { contentFactsOf, lastEventOf, refersTo, type VolumeSnapshotFacts } from "./volume-facts.ts";
import { phaseOfSnapshot } from "./volume-phase.ts";
import { resyncedBy, retriedBy, touch } from "./volume-retry.ts";

/** Explains the state of a VolumeSnapshot. Pure. */
export function explainVolumeSnapshot(facts: VolumeSnapshotFacts): Explanation {
  const found = rules(facts) ?? inProgress(facts);
  return {
    ...found,
    phase: phaseOfSnapshot(facts),
    lastEvent: lastEventOf(facts.events) ?? lastEventOf(facts.contentEvents),
  };
}

const rules: Rule<VolumeSnapshotFacts> = firstOf(
  deletingSnapshot,
  misbound,
  statusLag,
  ready,
  missingContent,
  blockedSnapshot,
  ofContent,
  silentController,
  failed,
);

/** A restore would read the data of somebody else. The controllers refuse it for the same reason. */
function misbound(facts: VolumeSnapshotFacts): Explanation | undefined {
  const { snapshot, content: read } = facts;
  const content = valueOf(read);
  const isNamed =
    /is bound to a different snapshot|is not bound to the VolumeSnapshot correctly|VolumeSnapshotRef does not match/;
  const isOther = content !== undefined && !isReserved(facts) && !refersTo(content, snapshot);
  if (!isOther && !isNamed.test(messageOf(facts))) return undefined;
  const name = contentName(facts);
  return {
    state: "stuck",
    cause: `Its content ${name} refers to another VolumeSnapshot, so that it is not used`,
    reason: "Misbound",
    since: snapshot.status?.error?.time ?? snapshot.metadata.creationTimestamp,
    retry: retriedBy("The snapshot-controller", facts.now),
    action: `Delete the VolumeSnapshot, and create a content of its own for the snapshot: kubectl delete volumesnapshot ${at(facts)}`,
    foundIn: `volumesnapshotcontent/${name}`,
  };
}

/** A content that is waiting for exactly this VolumeSnapshot has no UID yet. */
function isReserved({ snapshot, content }: VolumeSnapshotFacts): boolean {
  const { name, namespace, uid } = valueOf(content)?.spec.volumeSnapshotRef ?? {};
  return (uid ?? "") === "" && name === snapshot.metadata.name && namespace === snapshot.metadata.namespace;
}

/** external-snapshotter#953: the content is ready, and the VolumeSnapshot does not show it. The content is right. */
function statusLag(facts: VolumeSnapshotFacts): Explanation | undefined {
  const { snapshot, now } = facts;
  const content = valueOf(facts.content);
  if (content?.status?.readyToUse !== true || isReserved(facts)) return undefined;
  const { error, readyToUse } = snapshot.status ?? {};
  if (error === undefined && readyToUse === true) return undefined;
  const shown = error === undefined ? "does not show it yet" : `still shows an error: ${recorded(error.message)}`;
  return {
    state: readyToUse === true ? "degraded" : "waiting",
    cause: `The snapshot is complete and its content ${content.metadata.name} is ready, but the VolumeSnapshot ${shown}`,
    reason: "StatusLag",
    since: error?.time ?? snapshot.metadata.creationTimestamp,
    retry: resyncedBy(now),
    action: `To compare them now, run: ${touch("volumesnapshot", snapshot.metadata)}`,
  };
}

function ready(facts: VolumeSnapshotFacts): Explanation | undefined {
  const { snapshot } = facts;
  if (phaseOfSnapshot(facts) !== "Ready") return undefined;
  const { creationTime, restoreSize } = snapshot.status ?? {};
  const size = restoreSize === undefined ? "" : `, which needs at least ${restoreSize}`;
  return {
    state: "healthy",
    cause: `A claim can be restored from it${size}`,
    since: creationTime ?? snapshot.metadata.creationTimestamp,
    retry: "None is needed",
    action: nothingToDo,
  };
}

function missingContent(facts: VolumeSnapshotFacts): Explanation | undefined {
  const { snapshot, content, now } = facts;
  const { boundVolumeSnapshotContentName: bound, error } = snapshot.status ?? {};
  const name = bound ?? snapshot.spec?.source.volumeSnapshotContentName;
  if (name === undefined || "unknown" in content || content.value !== undefined) return undefined;
  const common = {
    state: "stuck",
    reason: "SnapshotContentMissing",
    since: error?.time ?? snapshot.metadata.creationTimestamp,
    retry: retriedBy("The snapshot-controller", now),
  } as const;
  if (bound === undefined)
    return {
      ...common,
      cause: `Its VolumeSnapshotContent ${name} does not exist`,
      action: `Create the VolumeSnapshotContent ${name} with spec.volumeSnapshotRef to this VolumeSnapshot`,
    };
  return {
    ...common,
    cause: `Its VolumeSnapshotContent ${bound} no longer exists, so that the snapshot cannot be restored`,
    action: `Delete the VolumeSnapshot; if the storage still has the snapshot, import its handle: kubectl delete volumesnapshot ${at(facts)}`,
  };
}

/** The controller has done its part: the sidecar and the driver have the rest. */
function ofContent(facts: VolumeSnapshotFacts): Explanation | undefined {
  const content = valueOf(facts.content);
  if (content === undefined) return undefined;
  const found = explainProgress(contentFactsOf(facts, content));
  return { ...found, foundIn: `volumesnapshotcontent/${content.metadata.name}` };
}

function silentController(facts: VolumeSnapshotFacts): Explanation | undefined {
  const { snapshot, content, now, events } = facts;
  const { creationTimestamp } = snapshot.metadata;
  const hasSign = "unknown" in content || snapshot.status !== undefined || (valueOf(events) ?? []).length > 0;
  if (hasSign || secondsSince(creationTimestamp, now) < silenceSeconds) return undefined;
  return {
    state: "stuck",
    cause: `The snapshot-controller has not processed it: it has no content, no status and no Event${controllerSign(facts, now)}`,
    reason: "SnapshotControllerSilent",
    since: creationTimestamp,
    retry: "The snapshot-controller processes it as soon as it runs",
    action:
      "Start the snapshot-controller, or install a version that knows these CRDs: kubectl get pods -A | grep snapshot-controller, and read its log",
  };
}

function failed(facts: VolumeSnapshotFacts): Explanation | undefined {
  const { snapshot, now } = facts;
  const message = messageOf(facts);
  if (message === "") return undefined;
  return explainDriverError({ message, since: snapshot.status?.error?.time, who: "The snapshot-controller", now });
}

/** Explains a VolumeSnapshot without a problem: it is new, or its content cannot be read. */
function inProgress(facts: VolumeSnapshotFacts): Explanation {
  const { snapshot, now } = facts;
  const isCut = snapshot.status?.creationTime !== undefined;
  const isAccepted = snapshot.status?.boundVolumeSnapshotContentName !== undefined;
  const accepted = isAccepted ? "The driver is asked to take the snapshot" : "The snapshot-controller prepares it";
  return {
    state: "waiting",
    cause: isCut ? "The snapshot is captured, and the storage is still copying its content" : accepted,
    reason: isCut ? "Copying" : "Pending",
    since: snapshot.metadata.creationTimestamp,
    retry: retriedBy("The snapshot-controller", now),
    action: nothingToDo,
  };
}

function messageOf({ snapshot }: VolumeSnapshotFacts): string {
  return snapshot.status?.error?.message ?? "";
}

function contentName({ snapshot, content }: VolumeSnapshotFacts): string {
  const { boundVolumeSnapshotContentName: bound } = snapshot.status ?? {};
  return valueOf(content)?.metadata.name ?? bound ?? snapshot.spec?.source.volumeSnapshotContentName ?? "";
}

function at({ snapshot: { metadata } }: VolumeSnapshotFacts): string {
  return `${metadata.name} -n ${metadata.namespace ?? ""}`;
}
