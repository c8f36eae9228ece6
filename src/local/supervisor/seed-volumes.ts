import { createHash } from "node:crypto";
import { delay } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import type { Manifest } from "../../install/manifest.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { packageRoot } from "../tools/tool.ts";
import { snapshotCrds, volumeObjects } from "../volumes/cluster-objects.ts";
import { volumeResources } from "../../kube/volumes/volumes.ts";
import { applyManifest } from "./apply-manifest.ts";

/**
 * Declares the driver of local volumes and its classes, and the kinds of snapshots if the build could fetch their CRDs. Once for each
 * version of them: it would delay every start, and a user may have changed or deleted a class.
 */
export async function seedVolumes(client: KubeClient, signal?: AbortSignal): Promise<void> {
  const { driver, storageClass, snapshotClasses, groupClass } = volumeObjects();
  const classes = [...snapshotClasses, groupClass];
  const crds = await snapshotCrds(packageRoot());
  const digest = createHash("sha256")
    .update(JSON.stringify([driver, storageClass, classes, crds]))
    .digest("hex");
  const known = await client.resource(volumeResources.drivers).find(driver.metadata, { signal });
  if (known?.metadata.annotations?.[seeded] === digest) return;
  await Promise.all([storageClass, ...(crds ?? [])].map((manifest) => applyManifest(client, manifest, signal)));
  if (crds !== undefined) await Promise.all(classes.map((manifest) => applyWhenServed(client, manifest, signal)));
  // The last one, because it says that the others are there.
  const metadata = { ...driver.metadata, annotations: { [seeded]: digest } };
  await applyManifest(client, { ...driver, metadata }, signal);
}

/** An annotation of the CSIDriver: the digest of the objects that were declared. */
const seeded = "local.csi.ramet.dev/declared";

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
