import type { Account } from "@pulumi/gcp/serviceaccount/index.js";
import { type ComponentResourceOptions, type CustomResourceOptions, type Input, interpolate } from "@pulumi/pulumi";
import { defined } from "../../src/base/defined.ts";
import { cloudPackage } from "../cloud-package.ts";
import type { GcsStore } from "../ramet-store.ts";
import {
  type CloudResources,
  controllersAccount,
  StoreIdentity,
  type StoreIdentityArgs,
  whenStored,
} from "./store-identity.ts";

export interface GkeStoreIdentityArgs extends StoreIdentityArgs {
  /** The name of an existing bucket. */
  bucket: Input<string>;
  /** The key prefix for checkpoints, such as `ramet/production`. @default the whole bucket */
  prefix?: Input<string>;
  /** The id of the project with the cluster's workload identity pool. */
  project: Input<string>;
}

/** For GKE: a Google service account that only Ramet's controllers impersonate, with access to an existing bucket. */
export class GkeStoreIdentity extends StoreIdentity<GkeStoreIdentityArgs> {
  constructor(name: string, args: GkeStoreIdentityArgs, opts: ComponentResourceOptions = {}) {
    const cloud = { type: "ramet:index:GkeStoreIdentity", create: gkeStoreRights, storeOf: gcsStore };
    super(cloud, name, args, opts);
  }
}

/**
 * Creates the Google service account. Granting access to the Kubernetes account directly would work too, but nothing
 * could sign the grants for cells.
 */
export async function gkeStoreRights(
  name: string,
  { project, bucket }: Pick<GkeStoreIdentityArgs, "project" | "bucket">,
  options: CustomResourceOptions,
): Promise<CloudResources> {
  const storage = await cloudPackage("@pulumi/gcp", () => import("@pulumi/gcp/storage/index.js"));
  const iam = await cloudPackage("@pulumi/gcp", () => import("@pulumi/gcp/serviceaccount/index.js"));
  const account = new iam.Account(name, { project, displayName: "Ramet's controllers" }, options);
  const right = new storage.BucketIAMMember(
    name,
    { bucket, role: "roles/storage.objectUser", member: account.member },
    options,
  );
  const allow = (what: string, role: string, member: Input<string>) =>
    new iam.IAMMember(`${name}-${what}`, { serviceAccountId: account.name, role, member }, options);
  const { namespace, serviceAccount } = controllersAccount;
  const pool = interpolate`serviceAccount:${project}.svc.id.goog[${namespace}/${serviceAccount}]`;
  return {
    [accountName]: account,
    "BucketIAMMember/store": right,
    "IAMMember/store-identity": allow("identity", "roles/iam.workloadIdentityUser", pool),
    "IAMMember/store-signer": allow("signer", "roles/iam.serviceAccountTokenCreator", account.member),
  };
}

const accountName = "Account/store";

/** The store for the argument `store` of a `RametRuntime`. */
export function gcsStore({ bucket, prefix }: Pick<GcsStore, "bucket" | "prefix">, made: Promise<CloudResources>) {
  const serviceAccount = whenStored(made, (resources) => (resources[accountName] as Account).email);
  return { gcs: { bucket, ...defined({ prefix }), serviceAccount } };
}
