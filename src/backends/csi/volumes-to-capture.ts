import type { VolumeClaim } from "../../api/pod/volume-claims.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { type Claim, claimsIn, type Volume, volumesIn } from "../../kube/volumes/volumes.ts";
import type { VolumeToCapture } from "./captured-volume.ts";

export interface CapturableVolume extends VolumeToCapture {
  claimUid: string;
}

/**
 * Reads the facts about each claim before its capture. A claim that several volumes mount is captured once.
 * @throws RametError `NotFound`, `Conflict` (retryable) or `NotSupported`, before anything is created
 */
export async function volumesToCapture(
  client: KubeClient,
  namespace: string,
  claims: readonly VolumeClaim[],
): Promise<CapturableVolume[]> {
  const once = [...new Map(claims.map((one) => [one.claim, one])).values()];
  return Promise.all(once.map((one) => volumeOf(client, namespace, one)));
}

async function volumeOf(client: KubeClient, namespace: string, { volume, claim: name }: VolumeClaim) {
  const claim = await claimsIn(client).find({ namespace, name });
  if (claim === undefined) throw refused("NotFound", name, "it does not exist");
  const problem = problemOf(claim);
  if (problem !== undefined) throw problem;
  const { volumeName = "" } = claim.spec;
  const bound = await volumesIn(client).find({ name: volumeName });
  if (bound === undefined) throw refused("NotFound", name, `its PersistentVolume ${volumeName} does not exist`);
  return { volume, claim: name, claimUid: claim.metadata.uid, ...restoreNeeds(claim), driver: driverOf(claim, bound) };
}

function problemOf({ metadata, status }: Claim): RametError | undefined {
  const { name, deletionTimestamp } = metadata;
  if (deletionTimestamp !== undefined) return refused("NotSupported", name, "it is being deleted");
  if (status?.phase === "Lost") return refused("NotFound", name, "its PersistentVolume was deleted");
  if (status?.phase === "Bound") return undefined;
  return refused("Conflict", name, "it is not bound to a volume yet", "Wait until a Pod mounts it");
}

function driverOf({ metadata: { name, uid } }: Claim, { metadata, spec }: Volume): string {
  if (spec.claimRef?.uid !== undefined && spec.claimRef.uid !== uid)
    throw refused("NotSupported", name, `its PersistentVolume ${metadata.name} is bound to another claim`);
  if (spec.csi !== undefined) return spec.csi.driver;
  throw refused(
    "NotSupported",
    name,
    `its PersistentVolume ${metadata.name} is of no CSI driver: only those have snapshots`,
    "Use a StorageClass of a CSI driver, or leave the volume out with spec.volumes",
  );
}

function restoreNeeds({ spec }: Claim) {
  const { accessModes, storageClassName, volumeMode } = spec;
  return defined({ accessModes, storageClassName, volumeMode });
}

function refused(code: "NotFound" | "NotSupported" | "Conflict", claim: string, why: string, hint?: string) {
  const what = `The PersistentVolumeClaim ${claim} cannot be captured: ${why}`;
  return new RametError(code, what, { hint, retryable: code === "Conflict" });
}
