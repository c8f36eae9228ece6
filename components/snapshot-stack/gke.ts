import type { CustomResourceOptions, Input } from "@pulumi/pulumi";
import { cloudPackage } from "../cloud-package.ts";
import { gcsStore, gkeStoreRights } from "../identity/gke-store-identity.ts";
import { type CloudResources, remainsDays } from "../identity/store-identity.ts";
import type { RametStore } from "../ramet-store.ts";

/** Google Cloud resources of a snapshot stack. GKE manages the CSI driver and the snapshot controller. */
export interface GkeStackArgs {
  /** Creates a bucket for checkpoints, and a Google service account with which the controllers access it. @default none */
  store?: GkeStackStore;
}

export interface GkeStackStore {
  /** The name of the bucket to create. */
  bucket: Input<string>;
  /** The region or multi-region of the bucket, such as `us-central1`. */
  location: Input<string>;
  /** The id of the project with the cluster's workload identity pool. */
  project: Input<string>;
  labels?: Record<string, Input<string>>;
}

/**
 * Creates the bucket and the service account with which the controllers access it. A bucket that is not empty is never
 * deleted.
 */
export async function gkeResources(
  name: string,
  { gke: { store } = {} }: { gke?: GkeStackArgs },
  options: CustomResourceOptions,
): Promise<CloudResources> {
  if (store === undefined) return {};
  const storage = await cloudPackage("@pulumi/gcp", () => import("@pulumi/gcp/storage/index.js"));
  const { bucket: bucketName, location, project, labels = {} } = store;
  const bucket = new storage.Bucket(
    `${name}-store`,
    {
      name: bucketName,
      location,
      project,
      labels,
      uniformBucketLevelAccess: true,
      publicAccessPrevention: "enforced",
      // Nothing needs deleted checkpoints. With the default of a week they would be billed that long.
      softDeletePolicy: { retentionDurationSeconds: 0 },
      lifecycleRules: [
        { action: { type: "AbortIncompleteMultipartUpload" }, condition: { age: remainsDays } },
        { action: { type: "Delete" }, condition: { daysSinceNoncurrentTime: remainsDays } },
      ],
    },
    options,
  );
  const rights = await gkeStoreRights(`${name}-store`, { project, bucket: bucket.name }, options);
  return { "Bucket/store": bucket, ...rights };
}

/** The store for the argument `store` of a `RametRuntime`. */
export function gkeStore({ gke: { store } = {} }: { gke?: GkeStackArgs }, made: Promise<CloudResources>): RametStore {
  return store === undefined ? {} : gcsStore({ bucket: store.bucket }, made);
}
