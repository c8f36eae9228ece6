import type { CustomResource, CustomResourceOptions, Input } from "@pulumi/pulumi";
import { interpolate } from "@pulumi/pulumi";
import { cloudPackage } from "../cloud-package.ts";

/** What Google Cloud is asked for. The driver and its controller are GKE's own. */
export interface GkeStackArgs {
  /** A bucket for checkpoints, and the right to it for the controllers' service account. @default none */
  store?: {
    /** The name of the bucket. */
    bucket: Input<string>;
    /** A region or multi-region, such as `us-central1`. */
    location: Input<string>;
    /** The id of the project with the cluster's workload identity pool. */
    project: Input<string>;
    /** Its number. */
    projectNumber: Input<string>;
    labels?: Record<string, Input<string>>;
  };
}

const account = { namespace: "ramet-system", serviceAccount: "ramet-controller" };

/** The bucket, which is not removed while it holds anything, and who may use it: a Kubernetes service account directly. */
export async function gkeResources(
  name: string,
  { store }: GkeStackArgs,
  options: CustomResourceOptions,
): Promise<Record<string, CustomResource>> {
  if (store === undefined) return {};
  const storage = await cloudPackage("@pulumi/gcp", () => import("@pulumi/gcp/storage/index.js"));
  const { bucket: bucketName, location, project, projectNumber, labels = {} } = store;
  const bucket = new storage.Bucket(
    `${name}-store`,
    {
      ...{ name: bucketName, location, project, labels },
      uniformBucketLevelAccess: true,
      publicAccessPrevention: "enforced",
    },
    options,
  );
  const pool = interpolate`//iam.googleapis.com/projects/${projectNumber}/locations/global/workloadIdentityPools/${project}.svc.id.goog`;
  const member = interpolate`principal:${pool}/subject/ns/${account.namespace}/sa/${account.serviceAccount}`;
  const right = new storage.BucketIAMMember(
    `${name}-store`,
    { bucket: bucket.name, role: "roles/storage.objectUser", member },
    options,
  );
  return { "Bucket/store": bucket, "BucketIAMMember/store": right };
}
