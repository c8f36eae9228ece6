import { defaultClassAnnotation, volumeFinalizers } from "../../kube/volumes/snapshots.ts";
import { shellWord } from "../output/render.ts";
import { explainDeletion, explainProgress, silenceSeconds } from "./content-rules.ts";
import { type Block, blockIn, defaultsIn, explainDriverError, isInUse, isMisbound, recorded } from "./csi-texts.ts";
import { type Explanation, type Found, type Rule, completed, firstOf } from "./explanation.ts";
import { secondsSince, valueOf } from "./facts.ts";
import {
  type VolumeSnapshotFacts as Facts,
  at,
  beingDeleted,
  contentFactsOf,
  controllerSign,
  hasFinalizer,
  heldBy,
  isLate,
  isProvisioning,
  lastEventOf,
  phaseOfSnapshot,
  refersTo,
  restores,
  resyncedBy,
  retriedBy,
  touch,
} from "./volume-facts.ts";
import { preparing } from "./preparation-rule.ts";

export function explainVolumeSnapshot(facts: Facts): Explanation {
  const { metadata, status } = facts.snapshot;
  const isDeleted = metadata.deletionTimestamp !== undefined;
  const found = isDeleted ? (deletionRules(facts) ?? beingDeleted) : (rules(facts) ?? inProgress(facts));
  const since = metadata.deletionTimestamp ?? status?.error?.time ?? metadata.creationTimestamp;
  return {
    ...completed(found, { since, retry: retriedBy("The snapshot-controller", facts.now) }),
    phase: phaseOfSnapshot(facts),
    lastEvent: lastEventOf(facts.events) ?? lastEventOf(facts.contentEvents),
  };
}

const rules: Rule<Facts> = firstOf(
  misbound,
  statusLag,
  ready,
  missingContent,
  blocked,
  ofContent,
  preparing,
  silentController,
  failed,
);

/** A restore would read the data of somebody else. The controllers refuse it for the same reason. */
function misbound(facts: Facts): Found | undefined {
  const { snapshot, content: read } = facts;
  const content = valueOf(read);
  const isOther = content !== undefined && !isReserved(facts) && !refersTo(content, snapshot);
  if (!isOther && !isMisbound(messageOf(facts))) return undefined;
  const { boundVolumeSnapshotContentName: bound } = snapshot.status ?? {};
  const name = content?.metadata.name ?? bound ?? snapshot.spec?.source.volumeSnapshotContentName ?? "";
  return {
    reason: "Misbound",
    cause: `Its content ${name} refers to another VolumeSnapshot, so that it is not used`,
    action: `Delete the VolumeSnapshot, and create a content of its own for the snapshot: kubectl delete volumesnapshot ${at(snapshot)}`,
    foundIn: `volumesnapshotcontent/${name}`,
  };
}

/** A content that is waiting for exactly this VolumeSnapshot has no UID yet. */
function isReserved({ snapshot, content }: Facts): boolean {
  const { name, namespace, uid } = valueOf(content)?.spec.volumeSnapshotRef ?? {};
  return (uid ?? "") === "" && name === snapshot.metadata.name && namespace === snapshot.metadata.namespace;
}

/** external-snapshotter#953: the content is ready, and the VolumeSnapshot does not show it. The content is right. */
function statusLag(facts: Facts): Found | undefined {
  const { snapshot, now } = facts;
  const content = valueOf(facts.content);
  if (content?.status?.readyToUse !== true || isReserved(facts)) return undefined;
  const { error, readyToUse } = snapshot.status ?? {};
  if (error === undefined && readyToUse === true) return undefined;
  const shown = error === undefined ? "does not show it yet" : `still shows an error: ${recorded(error.message)}`;
  return {
    state: readyToUse === true ? "degraded" : "waiting",
    reason: "StatusLag",
    cause: `The snapshot is complete and its content ${content.metadata.name} is ready, but the VolumeSnapshot ${shown}`,
    retry: resyncedBy(now),
    action: `To compare them now, run: ${touch("volumesnapshot", snapshot)}`,
  };
}

function ready(facts: Facts): Found | undefined {
  if (phaseOfSnapshot(facts) !== "Ready") return undefined;
  const { metadata, status } = facts.snapshot;
  const size = status?.restoreSize === undefined ? "" : `, which needs at least ${status.restoreSize}`;
  const since = status?.creationTime ?? metadata.creationTimestamp;
  return { state: "healthy", cause: `A claim can be restored from it${size}`, since };
}

function missingContent({ snapshot, content }: Facts): Found | undefined {
  const { boundVolumeSnapshotContentName: bound } = snapshot.status ?? {};
  const name = bound ?? snapshot.spec?.source.volumeSnapshotContentName;
  if (name === undefined || "unknown" in content || content.value !== undefined) return undefined;
  const reason = "SnapshotContentMissing";
  if (bound === undefined)
    return {
      reason,
      cause: `Its VolumeSnapshotContent ${name} does not exist`,
      action: `Create the VolumeSnapshotContent ${name} with spec.volumeSnapshotRef to this VolumeSnapshot`,
    };
  return {
    reason,
    cause: `Its VolumeSnapshotContent ${bound} no longer exists, so that the snapshot cannot be restored`,
    action: `Delete the VolumeSnapshot; if the storage still has the snapshot, import its handle: kubectl delete volumesnapshot ${at(snapshot)}`,
  };
}

/** Recognizes a VolumeSnapshot that is not taken because of its class or its claim. */
function blocked(facts: Facts): Found | undefined {
  const reason = blockIn(messageOf(facts)) ?? blockByAbsence(facts);
  return reason && { reason, ...blocks[reason](facts, sourceOf(facts)) };
}

/**
 * The snapshot-controller needs the class and the claim until it has created the content. The class may have been deleted afterwards:
 * that is no problem.
 */
function blockByAbsence({ snapshot: { spec, status }, content, classes, source }: Facts): Block | undefined {
  const isDynamic = spec?.source.persistentVolumeClaimName !== undefined;
  if (!isDynamic || status !== undefined || valueOf(content) !== undefined) return undefined;
  const name = spec.volumeSnapshotClassName;
  const hasClass = valueOf(classes)?.some(({ metadata }) => metadata.name === name);
  if (name !== undefined && hasClass === false) return "SnapshotClassMissing";
  return "value" in source && source.value === undefined ? "SourceMissing" : undefined;
}

const blocks: Readonly<Record<Block, (facts: Facts, source: string) => Found>> = {
  SnapshotClassMissing: (facts) => ({
    cause: `Its VolumeSnapshotClass ${facts.snapshot.spec?.volumeSnapshotClassName ?? ""} does not exist`,
    action: `Create the VolumeSnapshotClass again, or delete the VolumeSnapshot and request it with another class${choices(facts)}`,
  }),
  SeveralDefaultClasses: (facts) => {
    const names = classesOf(facts).filter(({ metadata }) => metadata.annotations?.[defaultClassAnnotation] === "true");
    const listed = names.map(({ metadata }) => metadata.name).join(", ");
    return {
      cause: `${driverOf(facts, "The")} has ${defaultsIn(messageOf(facts))} default VolumeSnapshotClasses${listed === "" ? "" : `: ${listed}`}`,
      action: `Set spec.volumeSnapshotClassName, or let one be the default: kubectl annotate volumesnapshotclass ${names[0]?.metadata.name ?? "NAME"} ${defaultClassAnnotation}-`,
    };
  },
  NoDefaultClass: (facts) => ({
    cause: `It names no VolumeSnapshotClass, and ${driverOf(facts, "the")} has no default one`,
    action: `Set spec.volumeSnapshotClassName${choices(facts)}, or mark a class as the default: kubectl annotate volumesnapshotclass NAME ${defaultClassAnnotation}=true`,
  }),
  SourceDeleting: ({ snapshot }, source) => ({
    cause: `The PersistentVolumeClaim ${source} is being deleted, so that no snapshot of it can be taken`,
    action: `Delete the VolumeSnapshot, and take one of another claim: kubectl delete volumesnapshot ${at(snapshot)}`,
    foundIn: `pvc/${source}`,
  }),
  SourceNotBound: (facts, source) => {
    if (valueOf(facts.source)?.status?.phase === "Bound")
      return {
        state: "waiting",
        cause: `The PersistentVolumeClaim ${source} was not bound yet when the snapshot was last tried, and is now`,
        action: `To try again immediately, run: ${touch("volumesnapshot", facts.snapshot)}`,
        foundIn: `pvc/${source}`,
      };
    return {
      cause: `The PersistentVolumeClaim ${source} is not bound to a PersistentVolume, so that nothing can be captured`,
      action: `Let a Pod use the claim if its class waits for one, and find out what else it waits for: ramet explain ${shellWord(`pvc/${source}`)} -n ${facts.snapshot.metadata.namespace ?? ""}`,
      foundIn: `pvc/${source}`,
    };
  },
  SourceNotCsi: (_, source) => ({
    cause: `The volume of the PersistentVolumeClaim ${source} is not of a CSI driver, and only those have snapshots`,
    action: "Move the data to a claim whose StorageClass names a CSI driver, and take the snapshot of that claim",
    foundIn: `pvc/${source}`,
  }),
  SourceMissing: ({ snapshot }, source) => ({
    cause: `The PersistentVolumeClaim ${source} does not exist in namespace ${snapshot.metadata.namespace ?? ""}`,
    action: `Create the claim, or delete the VolumeSnapshot and name another one: kubectl delete volumesnapshot ${at(snapshot)}`,
  }),
};

function sourceOf({ snapshot }: Facts): string {
  return snapshot.spec?.source.persistentVolumeClaimName ?? "";
}

function driverOf({ volume }: Facts, article: "The" | "the"): string {
  const driver = valueOf(volume)?.spec.csi?.driver;
  return driver === undefined ? `${article === "The" ? "Its" : "its"} driver` : `${article} driver ${recorded(driver)}`;
}

function classesOf({ classes, volume }: Facts) {
  const driver = valueOf(volume)?.spec.csi?.driver;
  return (valueOf(classes) ?? []).filter((one) => driver === undefined || one.driver === driver);
}

/** ` (a, b)`: the classes of the driver. */
function choices(facts: Facts): string {
  const names = classesOf(facts).map(({ metadata }) => metadata.name);
  return names.length === 0 ? "" : ` (${names.slice(0, 5).join(", ")})`;
}

/** The controller has done its part: the sidecar and the driver have the rest. */
function ofContent(facts: Facts): Found | undefined {
  const content = valueOf(facts.content);
  if (content === undefined) return undefined;
  const foundIn = `volumesnapshotcontent/${content.metadata.name}`;
  return { ...explainProgress(contentFactsOf(facts, content)), foundIn };
}

function silentController(facts: Facts): Found | undefined {
  const { snapshot, content, now, events } = facts;
  const hasSign = "unknown" in content || snapshot.status !== undefined || (valueOf(events) ?? []).length > 0;
  if (hasSign || secondsSince(snapshot.metadata.creationTimestamp, now) < silenceSeconds) return undefined;
  return {
    reason: "SnapshotControllerSilent",
    cause: `The snapshot-controller has not processed it: it has no content, no status and no Event${controllerSign(facts)}`,
    retry: "The snapshot-controller processes it as soon as it runs",
    action:
      "Start the snapshot-controller, or install a version that knows these CRDs: kubectl get pods -A | grep snapshot-controller, and read its log",
  };
}

function failed(facts: Facts): Found | undefined {
  const message = messageOf(facts);
  return message === "" ? undefined : explainDriverError(message);
}

/** Explains a VolumeSnapshot without a problem: it is new, or its content cannot be read. */
function inProgress({ snapshot: { status } }: Facts): Found {
  if (status?.creationTime !== undefined) {
    const cause = "The snapshot is captured, and the storage is still copying its content";
    return { state: "waiting", reason: "Copying", cause };
  }
  const isAccepted = status?.boundVolumeSnapshotContentName !== undefined;
  const cause = isAccepted ? "The driver is asked to take the snapshot" : "The snapshot-controller prepares it";
  return { state: "waiting", reason: "Pending", cause };
}

function messageOf({ snapshot }: Facts): string {
  return snapshot.status?.error?.message ?? "";
}

const deletionRules: Rule<Facts> = firstOf(
  member,
  deadlock,
  restoring,
  orphanedFinalizer,
  contentInDeletion,
  ({ snapshot }) => heldBy(snapshot.metadata.finalizers?.find((one) => !ownFinalizers.has(one))),
  silentDeletion,
);

const ownFinalizers: ReadonlySet<string> = new Set(Object.values(volumeFinalizers));

function member({ snapshot }: Facts): Found | undefined {
  const group = snapshot.status?.volumeGroupSnapshotName;
  if (!hasFinalizer(snapshot, volumeFinalizers.inGroup) && group === undefined) return undefined;
  const named = group ?? "NAME";
  return {
    reason: "SnapshotInGroup",
    cause: `It is a member of the VolumeGroupSnapshot ${group ?? ""}, whose members are deleted only together`,
    action: `Delete the group: kubectl delete volumegroupsnapshot ${shellWord(named)} -n ${snapshot.metadata.namespace ?? ""}`,
    foundIn: `volumegroupsnapshot/${named}`,
  };
}

/** external-snapshotter#747: the provisioner refuses a snapshot that is being deleted, and a waiting claim keeps the snapshot. */
function deadlock(facts: Facts): Found | undefined {
  const claims = restoringClaims(facts);
  const [first] = claims;
  if (first === undefined || hasFinalizer(facts.snapshot, volumeFinalizers.restoring)) return undefined;
  const names = claims.slice(0, 5).join(" ");
  return {
    reason: "RestoreDeadlock",
    cause: `Its deletion waits for the PersistentVolumeClaim ${names}, which restores it, and that claim waits because the snapshot is being deleted`,
    retry: "Both are tried again, without effect",
    action: `Delete the claim, and create it again from another snapshot: kubectl delete pvc ${names} -n ${facts.snapshot.metadata.namespace ?? ""}`,
    foundIn: `pvc/${first}`,
  };
}

function restoring(facts: Facts): Found | undefined {
  const [first] = restoringClaims(facts);
  const reason = "SnapshotInUse";
  if (first !== undefined)
    return {
      state: "waiting",
      reason,
      cause: `Its deletion waits until the PersistentVolumeClaim ${first} is restored from it`,
      action: `Find out what the claim waits for: ramet explain pvc/${first} -n ${facts.snapshot.metadata.namespace ?? ""}`,
      foundIn: `pvc/${first}`,
    };
  const isNoted = (valueOf(facts.events) ?? []).some(({ note }) => isInUse(note ?? ""));
  if (!isNoted || !("unknown" in facts.claims)) return undefined;
  return {
    state: "waiting",
    reason,
    cause: "Its deletion waits until a PersistentVolumeClaim is restored from it",
    action: "Find the Pending claim whose dataSource names the snapshot: kubectl get pvc",
  };
}

/** external-provisioner#1507. The provisioner of 6.3 removes such finalizers every 5 minutes. */
function orphanedFinalizer({ snapshot, claims }: Facts): Found | undefined {
  if (!hasFinalizer(snapshot, volumeFinalizers.restoring) || "unknown" in claims) return undefined;
  return {
    reason: "OrphanedFinalizer",
    cause: `No claim of its namespace restores it, but its deletion waits for the finalizer ${volumeFinalizers.restoring}, which external-provisioner 6.2 leaves behind`,
    retry: "external-provisioner 6.3 or later removes it within 5 minutes; 6.2 never does",
    action: `Upgrade external-provisioner to 6.3, or remove the finalizer after another check: ramet explain volumesnapshot/${at(snapshot)} --remove-orphaned-finalizer`,
  };
}

function contentInDeletion(facts: Facts): Found | undefined {
  const content = valueOf(facts.content);
  if (content === undefined || !refersTo(content, facts.snapshot)) return undefined;
  const found = explainDeletion(contentFactsOf(facts, content));
  if (found === undefined) return undefined;
  const { name } = content.metadata;
  const cause = `Its deletion waits for its content ${name}. ${found.cause}`;
  return { ...found, cause, foundIn: found.foundIn ?? `volumesnapshotcontent/${name}` };
}

function silentDeletion(facts: Facts): Found | undefined {
  const { snapshot, now } = facts;
  const { bound, asSource } = volumeFinalizers;
  const isHeld = hasFinalizer(snapshot, bound) || hasFinalizer(snapshot, asSource);
  if (!isHeld || !isLate(snapshot.metadata.deletionTimestamp, now)) return undefined;
  return {
    reason: "SnapshotControllerSilent",
    cause: `The snapshot-controller has not processed its deletion${controllerSign(facts)}`,
    retry: "The snapshot-controller processes it as soon as it runs",
    action: `Start the snapshot-controller: kubectl get pods -A | grep snapshot-controller; if it runs: ${touch("volumesnapshot", snapshot)}`,
  };
}

/** The names of the claims of its namespace whose volumes are in the making. The snapshot-controller looks for the same ones. */
function restoringClaims({ snapshot, claims }: Facts): string[] {
  const { name, namespace = "" } = snapshot.metadata;
  return (valueOf(claims) ?? [])
    .filter((claim) => isProvisioning(claim) && restores(claim, { namespace, name }))
    .map(({ metadata }) => metadata.name);
}
