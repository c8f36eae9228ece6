import { expect } from "vitest";
import type { KubeObject } from "../../src/kube/object.ts";
import { error, handle, type VolumeScene } from "./volume-scene.ts";

/** A complaint of users, as reference pages and issues of external-snapshotter and of drivers describe it. */
export interface Complaint {
  complaint: string;
  /** Plays what the controllers write. @returns what `ramet explain` explains, or the flags of `ramet doctor` */
  play: (scene: VolumeScene) => Promise<string | string[]>;
  /** The check of `ramet doctor`, for a complaint about the whole cluster. */
  check?: string;
  /** By how many seconds later the user asks. */
  later?: number;
  /** The fields of the explanation. */
  found: object;
}

export const ofProvisioner = "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection";
export const containing = (text: string) => expect.stringContaining(text) as string;

export const failedToTake = (why: string) =>
  `Failed to check and update snapshot content: failed to take snapshot of the volume vol-1: "rpc error: ${why}"`;

/** A snapshot whose sidecar recorded an error, which the snapshot-controller copied. */
export async function failing(scene: VolumeScene, message: string, event: { count?: number; seconds?: number } = {}) {
  await scene.boundClaim("data");
  const snapshot = await scene.snapshot("a");
  const content = await scene.content(snapshot, { status: { readyToUse: false, ...error(message) } });
  const reason = "SnapshotContentCheckandUpdateFailed";
  await scene.world.event(content, { reason, message, ...event });
  await scene.bind(snapshot, error(message));
  return "vs/a";
}

export const fromSnapshot = { apiGroup: "snapshot.storage.k8s.io", kind: "VolumeSnapshot", name: "a" };

/** A claim that restores the snapshot `a`, and what its provisioner reports. */
export async function restoring(scene: VolumeScene, spec: object = {}, why?: string): Promise<void> {
  const claim = await scene.claim("restored", { dataSource: fromSnapshot, ...spec });
  if (why === undefined) return;
  const prefix = `failed to provision volume with StorageClass "${scene.namespace}-storage": error getting handle for DataSource Type VolumeSnapshot by Name a: `;
  await scene.world.event(claim, { reason: "ProvisioningFailed", message: prefix + why });
}

export async function readySnapshot(
  scene: VolumeScene,
  status: object = {},
  content: object = {},
): Promise<KubeObject> {
  const snapshot = await scene.snapshot("a");
  await scene.content(snapshot, { status: { readyToUse: true, ...handle }, spec: content });
  await scene.bind(snapshot, {
    readyToUse: true,
    creationTime: new Date().toISOString(),
    restoreSize: "1Gi",
    ...status,
  });
  return snapshot;
}
