import { type KubeObject } from "../../kube/object.ts";
import {
  Snapshot,
  snapshotClassesIn,
  SnapshotContent,
  snapshotContentsIn,
  snapshotsIn,
  GroupSnapshot,
} from "../../kube/volumes/snapshots.ts";
import { Claim, claimsIn, storageClassesIn, volumeResources, volumesIn } from "../../kube/volumes/volumes.ts";
import { readQuotas } from "../../preflight/read-snapshots.ts";
import { explainContent } from "./content-rules.ts";
import type { Explanation } from "./explanation.ts";
import { type EventFacts, type Read, valueOf } from "./facts.ts";
import { explainGroup } from "./group-snapshot-rules.ts";
import { absent, type FactReader } from "./read.ts";
import { explainVolumeClaim } from "./volume-claim-rules.ts";
import {
  type ClaimFacts,
  type ContentFacts,
  sidecarLease,
  type SnapshotPrograms,
  type VolumeSnapshotFacts,
} from "./volume-facts.ts";
import type { VolumeKindName } from "./volume-kinds.ts";
import { explainVolumeSnapshot } from "./volume-snapshot-rules.ts";

/** Reads what an object of volumes depends on, and explains its state. */
export async function explainVolume(
  reader: FactReader,
  kind: VolumeKindName,
  object: KubeObject,
  now: Date,
): Promise<Explanation> {
  switch (kind) {
    case "volumesnapshot":
      return explainVolumeSnapshot(await readSnapshot(reader, Snapshot.parse(object), now));
    case "volumesnapshotcontent":
      return explainContent(await readContent(reader, SnapshotContent.parse(object), now));
    case "pvc":
      return explainVolumeClaim(await readClaim(reader, Claim.parse(object), now));
    case "volumegroupsnapshot": {
      const { name, namespace = "" } = object.metadata;
      const [events, quotas] = await Promise.all([
        reader.events(namespace, name, "VolumeGroupSnapshot"),
        reader.read("resourcequotas", (signal) => readQuotas(reader.client, namespace, signal)),
      ]);
      return explainGroup({ now, group: GroupSnapshot.parse(object), events, quotas });
    }
  }
}

/** Two rounds of concurrent reads: what the snapshot names, then what its content and its claim name. */
async function readSnapshot(reader: FactReader, snapshot: Snapshot, now: Date): Promise<VolumeSnapshotFacts> {
  const { client } = reader;
  const { metadata, spec } = snapshot;
  const { name, namespace = "" } = metadata;
  const [events, content, classes, source, claims, controller] = await Promise.all([
    reader.events(namespace, name, "VolumeSnapshot"),
    reader.find(snapshotContentsIn(client), { name: contentNameOf(snapshot) }),
    reader.list(snapshotClassesIn(client)),
    reader.find(claimsIn(client), { namespace, name: spec?.source.persistentVolumeClaimName }),
    metadata.deletionTimestamp === undefined ? absent : reader.list(claimsIn(client), { namespace }),
    reader.lease("snapshot-controller-leader"),
  ]);
  const ofClass = valueOf(classes)?.find((one) => one.metadata.name === spec?.volumeSnapshotClassName);
  const [contentEvents, volume, programs] = await Promise.all([
    readContentEvents(reader, valueOf(content)?.metadata.name),
    reader.find(volumesIn(client), { name: valueOf(source)?.spec.volumeName }),
    readPrograms(reader, valueOf(content)?.spec.driver ?? ofClass?.driver),
  ]);
  return { now, snapshot, events, content, contentEvents, classes, source, volume, claims, controller, ...programs };
}

async function readContent(reader: FactReader, content: SnapshotContent, now: Date): Promise<ContentFacts> {
  const { driver, volumeSnapshotRef } = content.spec;
  const [events, snapshot, classes, controller, programs] = await Promise.all([
    readContentEvents(reader, content.metadata.name),
    reader.find(snapshotsIn(reader.client), volumeSnapshotRef),
    reader.list(snapshotClassesIn(reader.client)),
    reader.lease("snapshot-controller-leader"),
    readPrograms(reader, driver),
  ]);
  return { now, content, events, snapshot, classes, controller, ...programs };
}

async function readClaim(reader: FactReader, claim: Claim, now: Date): Promise<ClaimFacts> {
  const { name, namespace = "", deletionTimestamp } = claim.metadata;
  const restoredName = snapshotRestoredBy(claim);
  const snapshots = snapshotsIn(reader.client);
  const [events, storageClass, restored, ofNamespace] = await Promise.all([
    reader.events(namespace, name, "PersistentVolumeClaim"),
    reader.find(storageClassesIn(reader.client), { name: claim.spec.storageClassName }),
    claim.status?.phase === "Bound" ? absent : reader.find(snapshots, { namespace, name: restoredName }),
    deletionTimestamp === undefined ? absent : reader.list(snapshots, { namespace }),
  ]);
  const snapshot = valueOf(restored);
  return {
    now,
    claim,
    events,
    storageClass,
    restored: snapshot && (await readSnapshot(reader, snapshot, now)),
    restoredName: "unknown" in restored ? undefined : restoredName,
    snapshots: ofNamespace,
  };
}

/** The snapshot in its own namespace that a claim restores. */
function snapshotRestoredBy({ spec, metadata }: Claim): string | undefined {
  const source = spec.dataSourceRef ?? spec.dataSource;
  if (source?.kind !== "VolumeSnapshot") return undefined;
  return (source.namespace ?? metadata.namespace) === metadata.namespace ? source.name : undefined;
}

/** The Events of objects without a namespace are in `default`. */
async function readContentEvents(reader: FactReader, name: string | undefined): Promise<Read<EventFacts[]>> {
  return name === undefined ? absent : reader.events("default", name, "VolumeSnapshotContent");
}

async function readPrograms(
  reader: FactReader,
  name: string | undefined,
): Promise<Pick<SnapshotPrograms, "sidecar" | "driver">> {
  const [sidecar, driver] = await Promise.all([
    name === undefined ? absent : reader.lease(sidecarLease(name)),
    reader.find(reader.client.resource(volumeResources.drivers), { name }),
  ]);
  return { sidecar, driver };
}

/** The content that it is bound to or names. The snapshot-controller gives the one that it creates a name that is known before. */
function contentNameOf({ metadata, spec, status }: Snapshot): string {
  const named = status?.boundVolumeSnapshotContentName ?? spec?.source.volumeSnapshotContentName;
  return named ?? `snapcontent-${metadata.uid}`;
}
