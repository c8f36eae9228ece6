import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { bytesToQuantity, quantityToBytes } from "../../base/quantity.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { snapshotsIn } from "../../kube/volumes/snapshots.ts";
import { type ClaimSpec, storageClassesIn } from "../../kube/volumes/volumes.ts";
import type { FillClaimRequest } from "../backend.ts";
import { contentOf } from "./remove-snapshots.ts";
import { isBound, stateOfSnapshot } from "./follow-snapshots.ts";

/**
 * Completes the spec of a clone's claim so that the provisioner fills it from a VolumeSnapshot: as large as the data needs, and with
 * the StorageClass and modes of the source where the spec has none.
 * @throws RametError `CheckpointLost` if the VolumeSnapshot is gone or its content belongs to another one; `NeedNotMet` if the
 *   StorageClass has another driver
 */
export async function fillClaim(
  client: KubeClient,
  { name: { namespace }, part, spec }: FillClaimRequest,
): Promise<ClaimSpec> {
  const { volume } = part;
  if (volume === undefined) throw new RametError("CheckpointLost", "The record of the checkpoint names no volume");
  await assertUsable(client, { namespace, name: volume.snapshot }, part.handle);
  const storageClassName = spec.storageClassName ?? volume.storageClassName;
  await assertDriver(client, storageClassName, volume.driver);
  const requested = spec.resources?.requests?.["storage"];
  const bytes = Math.max(requested === undefined ? 0 : quantityToBytes(requested, "storage"), part.sizeBytes);
  const { dataSourceRef: _, selector: __, volumeName: ___, ...kept } = spec;
  return {
    ...kept,
    accessModes: spec.accessModes ?? volume.accessModes,
    ...defined({ storageClassName, volumeMode: volume.volumeMode }),
    resources: { ...spec.resources, requests: { ...spec.resources?.requests, storage: bytesToQuantity(bytes) } },
    dataSource: { apiGroup: "snapshot.storage.k8s.io", kind: "VolumeSnapshot", name: volume.snapshot },
  };
}

async function assertUsable(
  client: KubeClient,
  at: { namespace: string; name: string },
  handle: string,
): Promise<void> {
  const snapshot = await snapshotsIn(client).find(at);
  if (snapshot === undefined || stateOfSnapshot(snapshot).state === "deleted") throw lost(at.name, "was deleted");
  const content = await contentOf(client, snapshot);
  if (content === undefined || !isBound(snapshot, content)) throw lost(at.name, "has no content that belongs to it");
  if (content.status?.snapshotHandle !== handle) throw lost(at.name, "has other data than the checkpoint");
}

function lost(name: string, why: string): RametError {
  return new RametError("CheckpointLost", `The VolumeSnapshot ${name} ${why}`, {
    hint: "Take another checkpoint of the source, and restore from that",
  });
}

/** The provisioner compares the same, and would wait without an end. */
async function assertDriver(client: KubeClient, className: string | undefined, driver: string): Promise<void> {
  if (className === undefined || className === "") return;
  const found = await storageClassesIn(client).find({ name: className });
  if (found === undefined || found.provisioner === driver) return;
  throw new RametError(
    "NeedNotMet",
    `The StorageClass ${className} is of the CSI driver ${found.provisioner}, and the volume was captured by ${driver}`,
    { hint: `Use a StorageClass of ${driver} in volumeClaimTemplates` },
  );
}
