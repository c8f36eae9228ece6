import { RametError } from "../../base/errors.ts";
import type { KubeObject } from "../../kube/object.ts";
import { Snapshot, SnapshotContent } from "../../kube/volumes/snapshots.ts";
import { Claim } from "../../kube/volumes/volumes.ts";
import { type Cluster, isUnknownKind } from "../cluster/cluster.ts";
import { explainContent } from "./content-rules.ts";
import type { Explanation } from "./explanation.ts";
import { explainGroup, GroupSnapshot } from "./group-snapshot-rules.ts";
import { explainVolumeClaim } from "./volume-claim-rules.ts";
import type { VolumeKindName } from "./volume-kinds.ts";
import { volumeKinds } from "./volume-resources.ts";
import type { VolumeFactReader } from "./volume-read.ts";
import { explainVolumeSnapshot } from "./volume-snapshot-rules.ts";

/** Reads what an object of volumes depends on, and explains its state. */
export async function explainVolume(
  reader: VolumeFactReader,
  kind: VolumeKindName,
  object: KubeObject,
  now: Date,
): Promise<Explanation> {
  const { name, namespace = "" } = object.metadata;
  switch (kind) {
    case "volumesnapshot":
      return explainVolumeSnapshot(await reader.snapshot(Snapshot.parse(object)));
    case "volumesnapshotcontent":
      return explainContent(await reader.content(SnapshotContent.parse(object)));
    case "pvc":
      return explainVolumeClaim(await reader.claim(Claim.parse(object)));
    case "volumegroupsnapshot": {
      const [events, quotas] = await Promise.all([
        reader.events(namespace, name, "VolumeGroupSnapshot"),
        reader.quotas(namespace),
      ]);
      return explainGroup({ now, group: GroupSnapshot.parse(object), events, quotas });
    }
  }
}

/** @throws RametError `NotFound`; `NotSupported` if the cluster has no VolumeSnapshots */
export async function findVolumeObject(
  cluster: Cluster,
  kind: VolumeKindName,
  name: string,
  signal: AbortSignal,
): Promise<KubeObject> {
  const ref = volumeKinds[kind];
  const at = ref.namespaced ? { namespace: cluster.namespace, name } : { name };
  try {
    return await cluster.client.resource(ref).get(at, { signal });
  } catch (error) {
    if (isUnknownKind(error))
      throw new RametError("NotSupported", `The cluster has no ${ref.kind}s: their CRDs are not installed`, {
        hint: "Install external-snapshotter, for example with the Pulumi component SnapshotStack",
        cause: error,
      });
    if (!(error instanceof RametError) || error.code !== "NotFound") throw error;
    const where = ref.namespaced ? ` in namespace ${cluster.namespace}` : "";
    throw new RametError("NotFound", `The ${ref.kind} ${name} does not exist${where}`, {
      hint: `List the existing ones with: kubectl get ${ref.plural}${ref.namespaced ? ` -n ${cluster.namespace}` : ""}`,
      cause: error,
    });
  }
}
