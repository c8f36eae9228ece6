import type { CustomResource, CustomResourceOptions, Input } from "@pulumi/pulumi";
import { cloudPackage } from "../cloud-package.ts";
import { gcsStore, gkeStoreRights } from "../identity/gke-store-identity.ts";
import type { RametStore } from "../ramet-store.ts";

/** What Google Cloud is asked for. The driver and its controller are GKE's own. */
export interface GkeStackArgs {
  /** A bucket for checkpoints, and a Google service account for the controllers, which may use it. @default none */
  store?: GkeStackStore;
}

export interface GkeStackStore {
  /** The name of the bucket. */
  bucket: Input<string>;
  /** A region or multi-region, such as `us-central1`. */
  location: Input<string>;
  /** The id of the project with the cluster's workload identity pool. */
  project: Input<string>;
  labels?: Record<string, Input<string>>;
}

/** The bucket, which is not removed while it holds anything, and the service account with which the controllers may use it. */
export async function gkeResources(
  name: string,
  { store }: GkeStackArgs,
  options: CustomResourceOptions,
): Promise<Record<string, CustomResource>> {
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
      // What Ramet removes is nobody's any more: kept for a week, which is the default, it would cost that long.
      softDeletePolicy: { retentionDurationSeconds: 0 },
    },
    options,
  );
  const rights = await gkeStoreRights(`${name}-store`, { project, bucket: bucket.name }, options);
  return { "Bucket/store": bucket, ...rights };
}

/** The store as the controllers are told of it. */
export function gkeStore({ store }: GkeStackArgs, made: Promise<Record<string, CustomResource>>): RametStore {
  return store === undefined ? {} : gcsStore({ bucket: store.bucket }, made);
}
