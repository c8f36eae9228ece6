import { delay } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import type { Manifest } from "../../install/manifest.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { packageRoot } from "../tools/tool.ts";
import { snapshotCrds, volumeObjects } from "../volumes/cluster-objects.ts";
import { applyManifest } from "./apply-manifest.ts";

/**
 * Declares the driver of local volumes and its classes.
 * @returns whether the cluster has VolumeSnapshots: not if the build could not fetch their CRDs
 */
export async function seedVolumes(client: KubeClient, signal?: AbortSignal): Promise<boolean> {
  const { storage, snapshotClasses } = volumeObjects();
  await Promise.all(storage.map((manifest) => applyManifest(client, manifest, signal)));
  const crds = await snapshotCrds(packageRoot());
  if (crds === undefined) return false;
  await Promise.all(crds.map((manifest) => applyManifest(client, manifest, signal)));
  await Promise.all(snapshotClasses.map((manifest) => applyWhenServed(client, manifest, signal)));
  return true;
}

const pauseMilliseconds = 100;
const mostTries = 300;

/** The API server serves a new kind a moment after it has its CRD. */
async function applyWhenServed(client: KubeClient, manifest: Manifest, signal?: AbortSignal): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    try {
      await applyManifest(client, manifest, signal);
      return;
    } catch (error) {
      if (RametError.from(error).code !== "NotFound" || tries === mostTries) throw error;
    }
    await delay(client.clock, pauseMilliseconds, signal);
  }
}
