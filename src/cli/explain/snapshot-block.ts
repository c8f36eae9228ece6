import { type SnapshotClass, defaultClassAnnotation } from "../../kube/volumes/snapshots.ts";
import { type Explanation, firstOf, type Rule } from "./explanation.ts";
import { valueOf } from "./facts.ts";
import { recorded } from "./recorded-text.ts";
import type { VolumeSnapshotFacts } from "./volume-facts.ts";
import { retriedBy, touch } from "./volume-retry.ts";

// The words of the snapshot-controller (external-snapshotter v8.7, pkg/common-controller/snapshot_controller.go).
const words = {
  noDefault: /cannot find default (?:group )?snapshot class/,
  severalDefaults: /(\d+) default snapshot classes were found/,
  missingClass:
    /volumesnapshotclass\.snapshot\.storage\.k8s\.io \\*"[^"\\]+\\*" not found|failed to get snapshot class \S+ for/,
  unboundSource: /not yet bound to a PV, will not attempt/,
  deletedSource: /cannot add finalizer on claim because it is being deleted/,
  otherSource: /cannot find CSI PersistentVolumeSource|snapshotting non-CSI volumes is not supported/,
  missingSource: /failed to retrieve PVC (\S+) from the lister|cannot get claim from snapshot/,
} as const;

export function isBlockedByClass(message: string): boolean {
  return [words.noDefault, words.severalDefaults, words.missingClass].some((pattern) => pattern.test(message));
}

export function isBlockedBySource(message: string): boolean {
  const { unboundSource, deletedSource, otherSource, missingSource } = words;
  return [unboundSource, deletedSource, otherSource, missingSource].some((pattern) => pattern.test(message));
}

/** Recognizes a VolumeSnapshot that is not taken because of its class or its claim. */
export const blockedSnapshot: Rule<VolumeSnapshotFacts> = firstOf(
  missingClass,
  severalDefaults,
  noDefault,
  deletedSource,
  unboundSource,
  otherSource,
  missingSource,
);

/** The class may have been deleted after the snapshot was requested: that is no problem once the content exists. */
function missingClass(facts: VolumeSnapshotFacts): Explanation | undefined {
  const name = facts.snapshot.spec?.volumeSnapshotClassName;
  const isAbsent = isNew(facts) && valueOf(facts.classes)?.some(({ metadata }) => metadata.name === name) === false;
  if (name === undefined || !(isAbsent || words.missingClass.test(messageOf(facts)))) return undefined;
  return {
    ...blocked(facts, "SnapshotClassMissing"),
    cause: `Its VolumeSnapshotClass ${name} does not exist`,
    action: `Create the VolumeSnapshotClass ${name} again, or delete the VolumeSnapshot and request it with another class${choices(facts)}`,
  };
}

/** Whether the snapshot-controller has yet to create its content, for which it needs the class and the claim. */
function isNew({ snapshot, content }: VolumeSnapshotFacts): boolean {
  const isDynamic = snapshot.spec?.source.persistentVolumeClaimName !== undefined;
  return isDynamic && snapshot.status === undefined && valueOf(content) === undefined;
}

function severalDefaults(facts: VolumeSnapshotFacts): Explanation | undefined {
  const [, count] = words.severalDefaults.exec(messageOf(facts)) ?? [];
  if (count === undefined) return undefined;
  const driver = driverOf(facts);
  const defaults = (valueOf(facts.classes) ?? []).filter(
    (one) => isDefault(one) && one.driver === (driver ?? one.driver),
  );
  const names = defaults.map(({ metadata }) => metadata.name).join(", ");
  const ofDriver = driver === undefined ? "Its driver" : `The driver ${driver}`;
  return {
    ...blocked(facts, "SeveralDefaultClasses"),
    cause: `${ofDriver} has ${count} default VolumeSnapshotClasses${names === "" ? "" : `: ${names}`}`,
    action: `Set spec.volumeSnapshotClassName, or let one be the default: kubectl annotate volumesnapshotclass ${defaults[0]?.metadata.name ?? "NAME"} ${defaultClassAnnotation}-`,
  };
}

function noDefault(facts: VolumeSnapshotFacts): Explanation | undefined {
  if (!words.noDefault.test(messageOf(facts))) return undefined;
  const driver = driverOf(facts);
  return {
    ...blocked(facts, "NoDefaultClass"),
    cause: `It names no VolumeSnapshotClass, and ${driver === undefined ? "its driver" : `the driver ${driver}`} has no default one`,
    action: `Set spec.volumeSnapshotClassName${choices(facts)}, or mark a class as the default: kubectl annotate volumesnapshotclass NAME ${defaultClassAnnotation}=true`,
  };
}

function deletedSource(facts: VolumeSnapshotFacts): Explanation | undefined {
  if (!words.deletedSource.test(messageOf(facts))) return undefined;
  return {
    ...blocked(facts, "SourceDeleting"),
    cause: `The PersistentVolumeClaim ${sourceName(facts)} is being deleted, so that no snapshot of it can be taken`,
    action: `Delete the VolumeSnapshot, and take one of another claim: kubectl delete volumesnapshot ${at(facts)}`,
    foundIn: `pvc/${sourceName(facts)}`,
  };
}

function unboundSource(facts: VolumeSnapshotFacts): Explanation | undefined {
  if (!words.unboundSource.test(messageOf(facts))) return undefined;
  const isBound = valueOf(facts.source)?.status?.phase === "Bound";
  const { metadata } = facts.snapshot;
  return {
    ...blocked(facts, "SourceNotBound"),
    state: isBound ? "waiting" : "stuck",
    cause: isBound
      ? `The PersistentVolumeClaim ${sourceName(facts)} was not bound yet when the snapshot was last tried, and is now`
      : `The PersistentVolumeClaim ${sourceName(facts)} is not bound to a PersistentVolume, so that nothing can be captured`,
    action: isBound
      ? `To try again immediately, run: ${touch("volumesnapshot", metadata)}`
      : `Let a Pod use the claim if its class waits for one, and find out what else it waits for: ramet explain pvc/${sourceName(facts)} -n ${metadata.namespace ?? ""}`,
    foundIn: `pvc/${sourceName(facts)}`,
  };
}

function otherSource(facts: VolumeSnapshotFacts): Explanation | undefined {
  if (!words.otherSource.test(messageOf(facts))) return undefined;
  return {
    ...blocked(facts, "SourceNotCsi"),
    cause: `The volume of the PersistentVolumeClaim ${sourceName(facts)} is not of a CSI driver, and only those have snapshots`,
    action: "Move the data to a claim whose StorageClass names a CSI driver, and take the snapshot of that claim",
    foundIn: `pvc/${sourceName(facts)}`,
  };
}

function missingSource(facts: VolumeSnapshotFacts): Explanation | undefined {
  const isAbsent = "value" in facts.source && facts.source.value === undefined && isNew(facts);
  const name = facts.snapshot.spec?.source.persistentVolumeClaimName;
  if (name === undefined || !(isAbsent || words.missingSource.test(messageOf(facts)))) return undefined;
  return {
    ...blocked(facts, "SourceMissing"),
    cause: `The PersistentVolumeClaim ${name} does not exist in namespace ${facts.snapshot.metadata.namespace ?? ""}`,
    action: `Create the claim, or delete the VolumeSnapshot and name another one: kubectl delete volumesnapshot ${at(facts)}`,
  };
}

function blocked({ snapshot, now }: VolumeSnapshotFacts, reason: string) {
  const since = snapshot.status?.error?.time ?? snapshot.metadata.creationTimestamp;
  return { state: "stuck", reason, since, retry: retriedBy("The snapshot-controller", now) } as const;
}

function messageOf({ snapshot }: VolumeSnapshotFacts): string {
  return snapshot.status?.error?.message ?? "";
}

function sourceName({ snapshot }: VolumeSnapshotFacts): string {
  return snapshot.spec?.source.persistentVolumeClaimName ?? "";
}

function at({ snapshot: { metadata } }: VolumeSnapshotFacts): string {
  return `${metadata.name} -n ${metadata.namespace ?? ""}`;
}

function isDefault({ metadata }: SnapshotClass): boolean {
  return metadata.annotations?.[defaultClassAnnotation] === "true";
}

/** The driver of the claim's volume. */
function driverOf({ volume }: VolumeSnapshotFacts): string | undefined {
  const driver = valueOf(volume)?.spec.csi?.driver;
  return driver === undefined ? undefined : recorded(driver);
}

/** ` (a, b)`: the classes of the driver. */
function choices(facts: VolumeSnapshotFacts): string {
  const driver = driverOf(facts);
  const fitting = (valueOf(facts.classes) ?? []).filter((one) => driver === undefined || one.driver === driver);
  return fitting.length === 0
    ? ""
    : ` (${fitting
        .map(({ metadata }) => metadata.name)
        .slice(0, 5)
        .join(", ")})`;
}
