import * as z from "zod";
import { RametError } from "../base/errors.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { ObjectMeta } from "../kube/object.ts";
import { coreResources, type ResourceRef } from "../kube/resource-ref.ts";
import { type Snapshot, type SnapshotContent, snapshotContentsIn, snapshotsIn } from "../kube/volumes/snapshots.ts";
import type {
  Seen,
  SnapshotClusterFacts,
  SnapshotContentRecord,
  SnapshotControllerPod,
  SnapshotCrd,
  StoredSnapshot,
  VolumeQuota,
} from "./cluster-facts.ts";

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
  const [crds, controllers, contents, quotas] = await Promise.all([
    see("CRDs", (signal) => readCrds(client, signal)),
    see("Pods of all namespaces", (signal) => readControllers(client, signal)),
    see("VolumeSnapshotContents and VolumeSnapshots", (signal) => readContents(client, signal)),
    see("ResourceQuotas", (signal) => readQuotas(client, namespace, signal)),
  ]);
  return { crds, controllers, contents, quotas, stored };
}

const crdNames = ["volumesnapshots", "volumesnapshotcontents", "volumesnapshotclasses"]
  .map((plural) => `${plural}.snapshot.storage.k8s.io`)
  .concat(
    ["volumegroupsnapshots", "volumegroupsnapshotcontents", "volumegroupsnapshotclasses"].map(
      (plural) => `${plural}.groupsnapshot.storage.k8s.io`,
    ),
  );

const Crd = z.looseObject({
  metadata: ObjectMeta,
  spec: z.looseObject({
    conversion: z
      .looseObject({
        webhook: z
          .looseObject({
            clientConfig: z
              .looseObject({ service: z.looseObject({ namespace: z.string(), name: z.string() }).nullish() })
              .nullish(),
          })
          .nullish(),
      })
      .nullish(),
  }),
  status: z.looseObject({ storedVersions: z.array(z.string()).nullish() }).nullish(),
});

async function readCrds(client: KubeClient, signal: AbortSignal): Promise<SnapshotCrd[]> {
  const crds = client.resource(coreResources.crds, (value) => Crd.parse(value));
  const read = async (name: string): Promise<SnapshotCrd[]> => {
    const crd = await crds.find({ name }, { signal });
    if (crd === undefined) return [];
    const service = crd.spec.conversion?.webhook?.clientConfig?.service ?? undefined;
    const found = service && (await client.resource(services).find(service, { signal }));
    return [
      {
        name,
        storedVersions: crd.status?.storedVersions ?? [],
        conversionService: service && `${service.namespace}/${service.name}`,
        hasService: found !== undefined,
      },
    ];
  };
  return (await Promise.all(crdNames.map(read))).flat();
}

const services: ResourceRef = { group: "", version: "v1", plural: "services", kind: "Service", namespaced: true };

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

/** Upstream's label since v7, and the one before. */
const controllerLabels = ["app.kubernetes.io/name=snapshot-controller", "app=snapshot-controller"];

async function readControllers(client: KubeClient, signal: AbortSignal): Promise<SnapshotControllerPod[]> {
  const pods = client.resource(coreResources.pods, (value) => ControllerPod.parse(value));
  const lists = await Promise.all(controllerLabels.map((labelSelector) => pods.list({ labelSelector, signal })));
  const byUid = new Map(lists.flatMap(({ items }) => items.map((pod) => [pod.metadata.uid, pod] as const)));
  return [...byUid.values()].map(({ metadata, spec, status }) => ({
    name: `${metadata.namespace ?? ""}/${metadata.name}`,
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
  const ref = { group: "", version: "v1", plural: "resourcequotas", kind: "ResourceQuota", namespaced: true };
  const quotas = client.resource(ref, (value) => Quota.parse(value));
  const { items } = await quotas.list({ namespace, signal });
  return items.flatMap(({ metadata, status }) =>
    Object.entries(status.hard)
      .filter(([resource]) => /volumesnapshots|persistentvolumeclaims|requests\.storage/.test(resource))
      .map(([resource, hard]) => ({ quota: metadata.name, resource, hard, used: status.used[resource] ?? "0" })),
  );
}
