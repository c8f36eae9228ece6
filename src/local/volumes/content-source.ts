import { RametError } from "../../base/errors.ts";
import { driverName } from "../csi/protocol.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { type SnapshotContent, snapshotContentsIn, snapshotsIn } from "../../kube/volumes/snapshots.ts";
import { type Claim, claimsIn, type DataSource, volumesIn } from "../../kube/volumes/volumes.ts";

/**
 * The source of a claim's content as CSI's CreateVolume takes it, or undefined for an empty volume. As external-provisioner, it uses
 * only a snapshot that is ready, and a content of this driver that refers to the snapshot in turn.
 * @throws RametError `Conflict` if the source is not ready yet; `NotFound`, `NotSupported`, `Forbidden`
 */
export async function contentSourceOf(client: KubeClient, claim: Claim): Promise<object | undefined> {
  const { namespace = "" } = claim.metadata;
  const source = claim.spec.dataSourceRef ?? claim.spec.dataSource;
  if (source === undefined || source === null) return undefined;
  if (source.namespace !== undefined && source.namespace !== null && source.namespace !== namespace)
    throw new RametError("Forbidden", `${failed}: its source is in the namespace ${source.namespace}`, {
      hint: `Use a source in the namespace ${namespace}`,
    });
  switch (`${source.apiGroup ?? ""}/${source.kind}`) {
    case "snapshot.storage.k8s.io/VolumeSnapshot":
      return { snapshot: { snapshotId: await snapshotOf(client, namespace, source) } };
    case "/PersistentVolumeClaim":
      return { volume: { volumeId: await volumeOf(client, namespace, source) } };
    default:
      throw new RametError("NotSupported", `${failed}: its source is a ${source.kind}`, {
        hint: "Use a VolumeSnapshot or a PersistentVolumeClaim",
      });
  }
}

const failed = "Creating the volume failed";

async function snapshotOf(client: KubeClient, namespace: string, { name }: DataSource): Promise<string> {
  const what = `the VolumeSnapshot ${name}`;
  const snapshot = await snapshotsIn(client).find({ namespace, name });
  if (snapshot === undefined) throw new RametError("NotFound", `${failed}: ${what} does not exist`);
  const { metadata, status } = snapshot;
  if (metadata.deletionTimestamp !== undefined) throw new RametError("Conflict", `${failed}: ${what} is being deleted`);
  const contentName = status?.boundVolumeSnapshotContentName;
  if (contentName === undefined || status?.readyToUse !== true) throw notReady(`${what} is not ready`);
  const content = await snapshotContentsIn(client).find({ name: contentName });
  if (content === undefined) throw notReady(`the content of ${what} does not exist`);
  return handleOf(content, { namespace, name, uid: metadata.uid }, what);
}

function handleOf(
  { spec, status }: SnapshotContent,
  snapshot: { namespace: string; name: string; uid: string },
  what: string,
): string {
  const { namespace, name, uid } = spec.volumeSnapshotRef;
  // Both sides must refer to each other: a user could name the content of another namespace.
  if (namespace !== snapshot.namespace || name !== snapshot.name || uid !== snapshot.uid)
    throw new RametError("Forbidden", `${failed}: the content of ${what} is bound to another snapshot`);
  if (spec.driver !== driverName)
    throw new RametError("InvalidArgument", `${failed}: ${what} is of the driver ${spec.driver}`);
  if (status?.snapshotHandle === undefined || status.readyToUse !== true)
    throw notReady(`the content of ${what} is not ready`);
  return status.snapshotHandle;
}

async function volumeOf(client: KubeClient, namespace: string, { name }: DataSource): Promise<string> {
  const claim = await claimsIn(client).find({ namespace, name });
  if (claim === undefined) throw new RametError("NotFound", `${failed}: the claim ${name} does not exist`);
  const { volumeName } = claim.spec;
  if (claim.status?.phase !== "Bound") throw notReady(`the claim ${name} is not bound`);
  const volume = volumeName === undefined ? undefined : await volumesIn(client).find({ name: volumeName });
  if (volume?.spec.csi?.driver !== driverName || volume.spec.claimRef?.uid !== claim.metadata.uid)
    throw new RametError("NotSupported", `${failed}: the volume of the claim ${name} is none of this driver`);
  return volume.spec.csi.volumeHandle;
}

function notReady(why: string): RametError {
  return new RametError("Conflict", `${failed}: ${why}`, { retryable: true });
}
