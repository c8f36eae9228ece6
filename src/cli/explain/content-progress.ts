import { explainDriverError } from "./driver-errors.ts";
import { type Explanation, firstOf, nothingToDo, type Rule } from "./explanation.ts";
import { type EventFacts, lastSeen, valueOf } from "./facts.ts";
import { isBlockedByClass } from "./snapshot-block.ts";
import { sidecarSign } from "./snapshot-programs.ts";
import { secondsSince } from "./time.ts";
import { type ContentFacts, hasAnnotation } from "./volume-facts.ts";
import { contentAnnotations } from "../../kube/volumes/snapshots.ts";
import { retriedBy, touch } from "./volume-retry.ts";

/** Explains how far a VolumeSnapshotContent has come that is not being deleted. Pure. */
export function explainProgress(facts: ContentFacts): Explanation {
  return rules(facts) ?? noAnswer(facts);
}

const rules: Rule<ContentFacts> = firstOf(ready, stormed, missingClass, stillCopied, failed, beingCreated, justCreated);

function ready({ content }: ContentFacts): Explanation | undefined {
  if (content.status?.readyToUse !== true) return undefined;
  const { deletionPolicy = "Delete" } = content.spec;
  return {
    state: "healthy",
    cause: `It is ready: a claim can restore it. Its deletionPolicy is ${deletionPolicy}`,
    since: content.metadata.creationTimestamp,
    retry:
      "None is needed. The sidecar does not look again, so a snapshot that is deleted in the storage still shows as ready",
    action: nothingToDo,
  };
}

/** Sidecars before 6.3 and 8.0 repeated calls without pauses (external-snapshotter#778). */
function stormed({ content, events, now }: ContentFacts): Explanation | undefined {
  const event = (valueOf(events) ?? []).find((one) => isStorm(one));
  if (event === undefined || content.status?.error === undefined) return undefined;
  const found = explainDriverError({
    message: event.note ?? "",
    since: undefined,
    who: sidecarOf(content.spec.driver),
    now,
  });
  return {
    ...found,
    reason: found.reason === "DriverError" ? "RetryStorm" : found.reason,
    state: "stuck",
    since: event.deprecatedFirstTimestamp ?? lastSeen(event),
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
function missingClass(facts: ContentFacts): Explanation | undefined {
  const { content, now } = facts;
  const { volumeSnapshotClassName: name, driver } = content.spec;
  const { error } = content.status ?? {};
  if (name === undefined || !(isBlockedByClass(error?.message ?? "") || lacksClass(facts, name))) return undefined;
  return {
    state: "stuck",
    cause: `Its VolumeSnapshotClass ${name} was deleted before the snapshot was taken`,
    reason: "SnapshotClassMissing",
    since: error?.time ?? content.metadata.creationTimestamp,
    retry: retriedBy(sidecarOf(driver), now),
    action: `Create the VolumeSnapshotClass ${name} again, with the driver ${driver}; it is not needed to delete the snapshot`,
  };
}

function lacksClass({ content, classes }: ContentFacts, name: string): boolean {
  const isGone = valueOf(classes)?.some(({ metadata }) => metadata.name === name) === false;
  return isGone && content.status?.snapshotHandle === undefined && content.status?.error === undefined;
}

/** The point in time is fixed; the storage still copies the content. An old error stays meanwhile. */
function stillCopied({ content, now }: ContentFacts): Explanation | undefined {
  const { snapshotHandle, error } = content.status ?? {};
  if (snapshotHandle === undefined) return undefined;
  const found =
    error?.message === undefined
      ? undefined
      : explainDriverError({ message: error.message, since: error.time, who: sidecarOf(content.spec.driver), now });
  if (found !== undefined && found.reason !== "DriverError" && found.reason !== "DriverUnanswered") return found;
  const old =
    found === undefined ? "" : `. An earlier error is still shown, which ends when it is ready: ${found.cause}`;
  return {
    state: "waiting",
    cause: `The snapshot is captured, and the storage is still copying its content${old}`,
    reason: "Copying",
    since: content.metadata.creationTimestamp,
    retry: retriedBy(sidecarOf(content.spec.driver), now),
    action: "Wait: the copy of much data takes minutes to hours; a freeze of the application can end now",
  };
}

function failed({ content, now }: ContentFacts): Explanation | undefined {
  const { error } = content.status ?? {};
  if (error?.message === undefined) return undefined;
  return explainDriverError({ message: error.message, since: error.time, who: sidecarOf(content.spec.driver), now });
}

function beingCreated({ content, now }: ContentFacts): Explanation | undefined {
  if (!hasAnnotation(content, contentAnnotations.beingCreated)) return undefined;
  const isLate = secondsSince(content.metadata.creationTimestamp, now) > createSeconds;
  return {
    state: isLate ? "stuck" : "waiting",
    cause: `The driver ${content.spec.driver} has been asked to take the snapshot, and has not answered`,
    reason: "Creating",
    since: content.metadata.creationTimestamp,
    retry: retriedBy(sidecarOf(content.spec.driver), now),
    action: isLate ? "Read the log of the driver's controller Pod: the call takes unusually long" : nothingToDo,
  };
}

/** The time in which a driver takes a snapshot, with several calls of a minute. */
const createSeconds = 600;

function justCreated({ content, now }: ContentFacts): Explanation | undefined {
  if (secondsSince(content.metadata.creationTimestamp, now) > silenceSeconds) return undefined;
  return {
    state: "waiting",
    cause: `The sidecar of the driver ${content.spec.driver} has not asked the driver yet`,
    reason: "Pending",
    since: content.metadata.creationTimestamp,
    retry: retriedBy(sidecarOf(content.spec.driver), now),
    action: nothingToDo,
  };
}

/** A sidecar that works sets its annotation within a second. */
export const silenceSeconds = 30;

function noAnswer(facts: ContentFacts): Explanation {
  const { content, now } = facts;
  const { driver } = content.spec;
  return {
    state: "stuck",
    cause: `No sidecar of the driver ${driver} has processed it${sidecarSign(facts, driver, now)}`,
    reason: "SidecarSilent",
    since: content.metadata.creationTimestamp,
    retry: "The sidecar (csi-snapshotter) processes it as soon as it runs and has its rights",
    action: `Run csi-snapshotter beside the controller of the driver ${driver}, with the rights that its manifests have; if it runs, read its log, then: ${touch("volumesnapshotcontent", { name: content.metadata.name })}`,
  };
}

function sidecarOf(driver: string): string {
  return `The csi-snapshotter of the driver ${driver}`;
}
