import { readFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { driverName } from "../csi/protocol.ts";
import type { Manifest } from "../../install/manifest.ts";
import { defaultClassAnnotation } from "../../kube/volumes/snapshots.ts";

/** The class of every claim that names none. */
export const storageClassName = "ramet-local";

/** The objects with which a cluster knows the driver: its CSIDriver, and its classes of volumes, snapshots and groups. */
export function volumeObjects() {
  // The names that SnapshotStack gives to the classes of a driver.
  const nameFor = (purpose: string): string => `${driverName.replaceAll(".", "-")}-${purpose}`;
  const snapshotClass = (purpose: string, deletionPolicy: string, annotations = {}): Manifest => ({
    apiVersion: "snapshot.storage.k8s.io/v1",
    kind: "VolumeSnapshotClass",
    metadata: { name: nameFor(purpose), annotations },
    driver: driverName,
    deletionPolicy,
  });
  return {
    driver: {
      apiVersion: "storage.k8s.io/v1",
      kind: "CSIDriver",
      metadata: { name: driverName },
      spec: { attachRequired: false, podInfoOnMount: false, fsGroupPolicy: "File", storageCapacity: false },
    },
    storageClass: {
      apiVersion: "storage.k8s.io/v1",
      kind: "StorageClass",
      metadata: { name: storageClassName, annotations: { "storageclass.kubernetes.io/is-default-class": "true" } },
      provisioner: driverName,
      reclaimPolicy: "Delete",
      allowVolumeExpansion: true,
      volumeBindingMode: "Immediate",
    },
    snapshotClasses: [
      snapshotClass("clone-delete", "Delete", { [defaultClassAnnotation]: "true" }),
      snapshotClass("checkpoint-retain", "Retain"),
    ],
    groupClass: {
      apiVersion: "groupsnapshot.storage.k8s.io/v1",
      kind: "VolumeGroupSnapshotClass",
      metadata: { name: nameFor("checkpoint-retain") },
      driver: driverName,
      deletionPolicy: "Retain",
    },
  };
}

const Crds = z.object({
  crds: z.array(
    z.looseObject({
      apiVersion: z.string(),
      kind: z.string(),
      metadata: z.looseObject({ name: z.string() }),
    }),
  ),
});

/** The CRDs of VolumeSnapshots and VolumeGroupSnapshots from the package's directory, as the build has fetched them; undefined if it could not. */
export async function snapshotCrds(root: string): Promise<Manifest[] | undefined> {
  const text = await readFile(join(root, "dist/external-snapshotter/crds.json"), "utf8").catch(() => undefined);
  if (text === undefined) return undefined;
  return Crds.parse(JSON.parse(text)).crds;
}
