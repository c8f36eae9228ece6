import * as z from "zod";
import { RametError, unlessCode } from "../base/errors.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { keyOf, ObjectMeta } from "../kube/object.ts";
import type { ListOptions } from "../kube/resource-client.ts";
import { clusterRef, coreResources, namespacedRef, type ResourceRef } from "../kube/resource-ref.ts";
import {
  type Snapshot,
  type SnapshotContent,
  snapshotContentsIn,
  snapshotResources,
  snapshotsIn,
} from "../kube/volumes/snapshots.ts";
import type {
  SnapshotClusterFacts,
  SnapshotContentRecord,
  SnapshotControllerPod,
  SnapshotCrd,
  StoredSnapshot,
  VolumeClasses,
  VolumeQuota,
} from "./cluster-facts.ts";
import { type Seen, allOf } from "./finding.ts";
import {
  crdNames,
  Named,
  ObservedClass,
  ObservedController,
  ObservedCrd,
  type ObservedWebhook,
  WebhookOfSnapshots,
} from "./snapshot-objects.ts";
import { storageClassesIn, volumeResources } from "../kube/volumes/volumes.ts";

interface ReadOptions {
  /** Whose quotas are read. */
  namespace: string;
  stored: readonly StoredSnapshot[] | undefined;
  /** Reads one thing within its time. */
  see: <T>(what: string, read: (signal: AbortSignal) => Promise<T>) => Promise<Seen<T>>;
}

/** Reads what the checks of VolumeSnapshots look at, all concurrently. */
export async function readSnapshots(
  client: KubeClient,
  { namespace, stored, see }: ReadOptions,
): Promise<SnapshotClusterFacts> {
  const read = await allOf({
    crds: see("CRDs", (signal) => readSnapshotCrds(client, signal)),
    controllers: see("Pods of all namespaces", (signal) => readControllerPods(client, signal)),
    contents: see("VolumeSnapshotContents and VolumeSnapshots", (signal) => readContents(client, signal)),
    quotas: see("ResourceQuotas", (signal) => readQuotas(client, namespace, signal)),
  });
  return { ...read, stored };
}

/** The CRDs with these names that exist. */
export async function readCrds(
  client: KubeClient,
  names: readonly string[],
  signal: AbortSignal,
): Promise<ObservedCrd[]> {
  const crds = client.resource(coreResources.crds);
  const found = await Promise.all(names.map((name) => crds.find({ name }, { signal })));
  return found.filter((crd) => crd !== undefined).map((crd) => ObservedCrd.parse(crd));
}

/** The snapshot-controllers with a visible Deployment. */
export function readControllers(client: KubeClient, signal: AbortSignal): Promise<ObservedController[]> {
  return labelled(client, { ref: coreResources.deployments, schema: ObservedController }, signal);
}

export async function readDrivers(client: KubeClient, signal: AbortSignal): Promise<string[]> {
  const drivers = await listed(client, { ref: volumeResources.drivers, schema: Named }, { signal });
  return drivers.map(({ metadata }) => metadata.name).sort();
}

/** @throws RametError `NotFound` if the cluster has no VolumeSnapshots */
export function readSnapshotClasses(client: KubeClient, signal: AbortSignal): Promise<ObservedClass[]> {
  return listed(client, { ref: snapshotResources.classes, schema: ObservedClass }, { signal });
}

/** Reads the classes of both kinds. @throws RametError `Forbidden` */
export async function readVolumeClasses(client: KubeClient, signal: AbortSignal): Promise<VolumeClasses> {
  const snapshots = readSnapshotClasses(client, signal).catch(unlessCode("NotFound"));
  const [storage, ofSnapshots] = await Promise.all([storageClassesIn(client).list({ signal }), snapshots]);
  return {
    storage: storage.items.map(({ metadata, provisioner }) => ({
      name: metadata.name,
      driver: provisioner,
      isDefault: metadata.annotations?.["storageclass.kubernetes.io/is-default-class"] === "true",
    })),
    snapshots: ofSnapshots,
  };
}

export async function readWebhooks(client: KubeClient, signal: AbortSignal): Promise<ObservedWebhook[]> {
  const found = await listed(client, { ref: validatingWebhooks, schema: WebhookOfSnapshots }, { signal });
  return found.filter((webhook) => webhook !== undefined);
}

interface Listed<T> {
  ref: ResourceRef;
  schema: z.ZodType<T>;
}

async function listed<T>(client: KubeClient, { ref, schema }: Listed<T>, options: ListOptions): Promise<T[]> {
  return (await client.resource(ref).listRaw(options)).items.map((item) => schema.parse(item));
}

/** The objects of snapshot-controllers, by the labels of upstream's charts and of its manifests before and since v7. */
async function labelled<T>(client: KubeClient, { ref, schema }: Listed<T>, signal: AbortSignal): Promise<T[]> {
  const resource = client.resource(ref);
  const lists = await Promise.all(controllerLabels.map((labelSelector) => resource.listRaw({ labelSelector, signal })));
  const found = new Map(lists.flatMap(({ items }) => items).map((item) => [keyOf(Named.parse(item).metadata), item]));
  return [...found.values()].map((item) => schema.parse(item));
}

const controllerLabels = ["app.kubernetes.io/name=snapshot-controller", "app=snapshot-controller"];

const services = namespacedRef("v1", "Service");
const resourceQuotas = namespacedRef("v1", "ResourceQuota");
const validatingWebhooks = clusterRef("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration");

async function readSnapshotCrds(client: KubeClient, signal: AbortSignal): Promise<SnapshotCrd[]> {
  const crds = await readCrds(client, [...crdNames.core, ...crdNames.group], signal);
  return Promise.all(
    crds.map(async ({ name, stored, conversionService }) => {
      const service = conversionService && (await client.resource(services).find(conversionService, { signal }));
      return { name, stored, conversionService, hasService: service !== undefined };
    }),
  );
}

const ControllerPod = z.looseObject({
  metadata: ObjectMeta,
  spec: z.looseObject({ containers: z.array(z.looseObject({ name: z.string(), image: z.string().nullish() })) }),
  status: z
    .looseObject({
      containerStatuses: z
        .array(
          z.looseObject({
            restartCount: z.number().default(0),
            lastState: z
              .looseObject({ terminated: z.looseObject({ reason: z.string().nullish() }).nullish() })
              .nullish(),
          }),
        )
        .default([]),
    })
    .prefault({}),
});

async function readControllerPods(client: KubeClient, signal: AbortSignal): Promise<SnapshotControllerPod[]> {
  const pods = await labelled(client, { ref: coreResources.pods, schema: ControllerPod }, signal);
  return pods.map(({ metadata, spec, status }) => ({
    name: keyOf(metadata),
    version: /:([^:@/]+)(?:@|$)/.exec(spec.containers[0]?.image ?? "")?.[1] ?? "",
    restarts: Math.max(0, ...status.containerStatuses.map(({ restartCount }) => restartCount)),
    lastEnd: status.containerStatuses.flatMap(({ lastState }) => lastState?.terminated?.reason ?? [])[0],
  }));
}

async function readContents(client: KubeClient, signal: AbortSignal): Promise<SnapshotContentRecord[]> {
  try {
    const [contents, snapshots] = await Promise.all([
      snapshotContentsIn(client).list({ signal }),
      snapshotsIn(client).list({ signal }),
    ]);
    return recordsOf(contents.items, snapshots.items);
  } catch (error) {
    if (RametError.from(error).code === "NotFound") return [];
    throw error;
  }
}

function recordsOf(contents: readonly SnapshotContent[], snapshots: readonly Snapshot[]): SnapshotContentRecord[] {
  const uids = new Map(snapshots.map(({ metadata: { namespace, name, uid } }) => [`${namespace ?? ""}/${name}`, uid]));
  return contents.map(({ metadata, spec, status }) => {
    const { namespace = "", name = "", uid } = spec.volumeSnapshotRef;
    // Without a UID, it is reserved for a VolumeSnapshot that may still be created.
    const isBound = uid !== undefined && uid !== "";
    return {
      name: metadata.name,
      driver: spec.driver,
      deletionPolicy: spec.deletionPolicy ?? "Delete",
      handle: status?.snapshotHandle ?? spec.source?.snapshotHandle,
      createdAt: metadata.creationTimestamp,
      isOrphan: isBound && uids.get(`${namespace}/${name}`) !== uid,
    };
  });
}

const Quota = z.looseObject({
  metadata: ObjectMeta,
  status: z
    .looseObject({
      hard: z.record(z.string(), z.string()).default({}),
      used: z.record(z.string(), z.string()).default({}),
    })
    .prefault({}),
});

/** Reads the limits of a namespace on volumes and snapshots. @throws RametError `Forbidden` */
export async function readQuotas(client: KubeClient, namespace: string, signal: AbortSignal): Promise<VolumeQuota[]> {
  const quotas = client.resource(resourceQuotas, (value) => Quota.parse(value));
  const { items } = await quotas.list({ namespace, signal });
  return items.flatMap(({ metadata, status }) =>
    Object.entries(status.hard)
      .filter(([resource]) => /volumesnapshots|persistentvolumeclaims|requests\.storage/.test(resource))
      .map(([resource, hard]) => ({ quota: metadata.name, resource, hard, used: status.used[resource] ?? "0" })),
  );
}
