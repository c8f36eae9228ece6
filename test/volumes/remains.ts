import { checkpointKind } from "../../src/api/kinds/checkpoint.ts";
import { sandboxTemplateKind } from "../../src/api/kinds/sandbox-template.ts";
import { sandboxKind } from "../../src/api/kinds/sandbox.ts";
import { delay } from "../../src/base/clock.ts";
import { RametError } from "../../src/base/errors.ts";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import { parseObject } from "../../src/kube/object.ts";
import { coreResources, refOf, type ResourceRef } from "../../src/kube/resource-ref.ts";
import {
  type SnapshotContent,
  snapshotContentsIn,
  snapshotResources,
  snapshotsIn,
} from "../../src/kube/volumes/snapshots.ts";
import { claimsIn, type Volume, volumesIn } from "../../src/kube/volumes/volumes.ts";

/** A namespace of a cluster. */
export interface Place {
  client: KubeClient;
  namespace: string;
  /** How long the cluster may take to delete everything. */
  timeoutSeconds: number;
  /** Whether the cluster has the controllers of namespaces, without which a namespace is never gone. */
  isManaged?: boolean;
}

const ofUsers = [refOf(sandboxKind), refOf(checkpointKind), refOf(sandboxTemplateKind)];
const inNamespace = [
  ...ofUsers,
  coreResources.pods,
  coreResources.persistentVolumeClaims,
  snapshotResources.snapshots,
] satisfies ResourceRef[];

/**
 * The objects of the namespace, and those that the cluster has for it: PersistentVolumes and VolumeSnapshotContents.
 * @returns kinds and names
 */
export async function remainsOf({ client, namespace }: Place): Promise<string[]> {
  const lists = await Promise.all([
    ...inNamespace.map((ref) => orNone(client.resource(ref, parseObject).list({ namespace }))),
    volumesOf({ client, namespace }),
    contentsOf({ client, namespace }),
  ]);
  const kinds = [...inNamespace.map(({ kind }) => kind), "PersistentVolume", "VolumeSnapshotContent"];
  return lists.flatMap((list, index) => list.map(({ metadata }) => `${kinds[index] ?? ""} ${metadata.name}`));
}

/**
 * Deletes what users create: sandboxes, checkpoints and templates. The volumes of a class that retains them are deleted too.
 * @returns what remains when the cluster has had its time
 */
export async function deleteAll(place: Place): Promise<string[]> {
  const { client, namespace } = place;
  for (const { metadata, spec } of await volumesOf(place))
    if (spec.persistentVolumeReclaimPolicy !== "Delete")
      await volumesIn(client).mergePatch(metadata, { spec: { persistentVolumeReclaimPolicy: "Delete" } });
  for (const ref of ofUsers) {
    const objects = client.resource(ref, parseObject);
    for (const { metadata } of await orNone(objects.list({ namespace }))) await objects.delete(metadata);
  }
  return untilEmpty(place);
}

/**
 * Removes what remains of a failed run: after the objects of users, also what belongs to them, with its data. Then the namespace.
 * @returns what cannot be removed
 */
export async function removeNamespace(place: Place): Promise<string[]> {
  const { client, namespace } = place;
  if ((await deleteAll(place)).length > 0) await deleteForcibly(place);
  const left = await untilEmpty(place);
  const namespaces = client.resource(coreResources.namespaces, parseObject);
  const named = { name: namespace };
  await namespaces.delete(named);
  if (place.isManaged ?? (await isManaged(place)))
    await until(place, async () => (await namespaces.find(named)) === undefined);
  return left;
}

/** Whether the cluster has the controllers of namespaces, which create an account in each, and delete it. */
export async function isManaged({ client, namespace }: Place): Promise<boolean> {
  const account = { namespace, name: "default" };
  return until(
    { client, timeoutSeconds: 5 },
    async () => (await client.resource(coreResources.serviceAccounts).find(account)) !== undefined,
  );
}

async function deleteForcibly({ client, namespace }: Place): Promise<void> {
  for (const { metadata } of await contentsOf({ client, namespace })) {
    await snapshotContentsIn(client).mergePatch(metadata, { spec: { deletionPolicy: "Delete" } });
    await snapshotContentsIn(client).delete(metadata);
  }
  for (const { metadata } of await orNone(snapshotsIn(client).list({ namespace })))
    await snapshotsIn(client).delete(metadata);
  for (const { metadata } of await orNone(claimsIn(client).list({ namespace })))
    await claimsIn(client).delete(metadata);
}

async function untilEmpty(place: Place): Promise<string[]> {
  let left: string[] = [];
  await until(place, async () => {
    left = await remainsOf(place);
    return left.length === 0;
  });
  return left;
}

/** @returns whether it holds before the time is over */
async function until(
  { client: { clock }, timeoutSeconds }: Pick<Place, "client" | "timeoutSeconds">,
  holds: () => Promise<boolean>,
): Promise<boolean> {
  const end = clock.monotonicMilliseconds() + timeoutSeconds * 1000;
  for (;;) {
    if (await holds()) return true;
    if (clock.monotonicMilliseconds() > end) return false;
    await delay(clock, 500);
  }
}

type In = Pick<Place, "client" | "namespace">;

async function volumesOf({ client, namespace }: In): Promise<Volume[]> {
  const volumes = await orNone(volumesIn(client).list());
  return volumes.filter(({ spec }) => spec.claimRef?.namespace === namespace);
}

async function contentsOf({ client, namespace }: In): Promise<SnapshotContent[]> {
  const contents = await orNone(snapshotContentsIn(client).list());
  return contents.filter(({ spec }) => spec.volumeSnapshotRef.namespace === namespace);
}

/** A cluster without the kind has no objects of it. */
async function orNone<T>(listing: Promise<{ items: T[] }>): Promise<T[]> {
  try {
    return (await listing).items;
  } catch (error) {
    if (RametError.from(error).code === "NotFound") return [];
    throw error;
  }
}
