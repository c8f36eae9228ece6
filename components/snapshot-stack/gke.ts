import type { Account } from "@pulumi/gcp/serviceaccount/index.js";
import type { CustomResource, CustomResourceOptions, Input } from "@pulumi/pulumi";
import { interpolate } from "@pulumi/pulumi";
import { controllerName, systemNamespace } from "../../src/api/system-names.ts";
import { cloudPackage } from "../cloud-package.ts";
import type { RametStore } from "../ramet-store.ts";
import { whenStored } from "./when-stored.ts";

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

/**
 * The bucket, which is not removed while it holds anything, and the service account for which the controllers' Kubernetes one stands:
 * with rights of its own that could use the bucket, and had nobody to sign what cells are given.
 */
export async function gkeResources(
  name: string,
  { store }: GkeStackArgs,
  options: CustomResourceOptions,
): Promise<Record<string, CustomResource>> {
  if (store === undefined) return {};
  const storage = await cloudPackage("@pulumi/gcp", () => import("@pulumi/gcp/storage/index.js"));
  const iam = await cloudPackage("@pulumi/gcp", () => import("@pulumi/gcp/serviceaccount/index.js"));
  const { bucket: bucketName, location, project, labels = {} } = store;
  const bucket = new storage.Bucket(
    `${name}-store`,
    {
      ...{ name: bucketName, location, project, labels },
      uniformBucketLevelAccess: true,
      publicAccessPrevention: "enforced",
      // What Ramet removes is nobody's any more: kept for a week, which is the default, it would cost that long.
      softDeletePolicy: { retentionDurationSeconds: 0 },
    },
    options,
  );
  const account = new iam.Account(`${name}-store`, { project, displayName: "Ramet's controllers" }, options);
  const right = new storage.BucketIAMMember(
    `${name}-store`,
    { bucket: bucket.name, role: "roles/storage.objectUser", member: account.member },
    options,
  );
  const allow = (what: string, role: string, member: Input<string>) =>
    new iam.IAMMember(`${name}-store-${what}`, { serviceAccountId: account.name, role, member }, options);
  const pool = interpolate`serviceAccount:${project}.svc.id.goog[${systemNamespace}/${controllerName}]`;
  return {
    ...{ "Bucket/store": bucket, [accountName]: account, "BucketIAMMember/store": right },
    "IAMMember/store-identity": allow("identity", "roles/iam.workloadIdentityUser", pool),
    "IAMMember/store-signer": allow("signer", "roles/iam.serviceAccountTokenCreator", account.member),
  };
}

const accountName = "Account/store";

/** The store as the controllers are told of it; who they are is known when all is there that they need. */
export function gkeStore({ store }: GkeStackArgs, made: Promise<Record<string, CustomResource>>): RametStore {
  if (store === undefined) return {};
  const serviceAccount = whenStored(made, (resources) => (resources[accountName] as Account).email);
  return { gcs: { bucket: store.bucket, serviceAccount } };
}
