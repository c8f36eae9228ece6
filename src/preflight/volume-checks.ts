import { RametError } from "../base/errors.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { defaultClassAnnotation } from "../kube/volumes/snapshot-names.ts";
import { storageClassesIn } from "../kube/volumes/volumes.ts";
import type { ClusterFacts, VolumeClass, VolumeClasses } from "./cluster-facts.ts";
import { readSnapshotClasses } from "./read-snapshots.ts";
import { type Finding, finding, listed, ok, unread } from "./finding.ts";

/** Checks which classes claims and VolumeSnapshots without a class get. A sandbox without volumes needs none of this. */
export function checkVolumes({ volumeClasses }: Pick<ClusterFacts, "volumeClasses">): Finding {
  const check = "volumes";
  if ("unknown" in volumeClasses)
    return unread(check, "The classes of volumes are", {
      why: volumeClasses.unknown,
      allowed: "a user who may list StorageClasses and VolumeSnapshotClasses",
    });
  const { storage, snapshots } = volumeClasses.value;
  const defaults = namesOf(storage.filter(({ isDefault }) => isDefault));
  if (defaults.length > 1)
    return finding(
      check,
      "warning",
      `Claims without a class get any of several default StorageClasses: ${listed(defaults)}`,
      `Let one be the default: kubectl annotate storageclass NAME ${defaultAnnotations.storage}-`,
    );
  const double = (snapshots ?? []).find(({ driver, name }) => hasOtherDefault(snapshots ?? [], { driver, name }));
  if (double !== undefined)
    return finding(
      check,
      "warning",
      `VolumeSnapshots without a class fail, because the driver ${double.driver} has several default VolumeSnapshotClasses`,
      `Let one be the default: kubectl annotate volumesnapshotclass NAME ${defaultAnnotations.snapshots}-`,
    );
  return ok(check, `${describeClaims(storage, defaults)}; ${describeSnapshots(snapshots)}`);
}

function hasOtherDefault(classes: readonly VolumeClass[], { driver, name }: { driver: string; name: string }): boolean {
  const defaults = classes.filter((one) => one.isDefault && one.driver === driver);
  return defaults.length > 1 && defaults.some((one) => one.name === name);
}

function describeClaims(storage: readonly VolumeClass[], [byDefault]: readonly string[]): string {
  if (byDefault !== undefined) return `Claims without a class get the StorageClass ${byDefault}`;
  if (storage.length === 0) return "The cluster has no StorageClass";
  return `Claims must name one of the StorageClasses ${listed(namesOf(storage))}`;
}

function describeSnapshots(snapshots: readonly VolumeClass[] | undefined): string {
  if (snapshots === undefined) return "it has no VolumeSnapshots";
  if (snapshots.length === 0) return "no driver has a VolumeSnapshotClass";
  return `VolumeSnapshots have classes of ${listed([...new Set(snapshots.map(({ driver }) => driver))])}`;
}

function namesOf(classes: readonly VolumeClass[]): string[] {
  return classes.map(({ name }) => name);
}

const defaultAnnotations = {
  storage: "storageclass.kubernetes.io/is-default-class",
  snapshots: defaultClassAnnotation,
} as const;

/** Reads the classes of both kinds. @throws RametError `Forbidden` */
export async function readVolumeClasses(client: KubeClient, signal: AbortSignal): Promise<VolumeClasses> {
  const snapshots = readSnapshotClasses(client, signal).catch((error: unknown) => {
    if (RametError.from(error).code === "NotFound") return undefined;
    throw error;
  });
  const [storage, ofSnapshots] = await Promise.all([storageClassesIn(client).list({ signal }), snapshots]);
  return {
    storage: storage.items.map(({ metadata, provisioner }) => ({
      name: metadata.name,
      driver: provisioner,
      isDefault: metadata.annotations?.[defaultAnnotations.storage] === "true",
    })),
    snapshots: ofSnapshots,
  };
}
