import type { Account } from "@pulumi/gcp/serviceaccount/index.js";
import {
  type ComponentResourceOptions,
  type CustomResource,
  type CustomResourceOptions,
  type Input,
  interpolate,
} from "@pulumi/pulumi";
import { cloudPackage } from "../cloud-package.ts";
import type { GcsStore, RametStore } from "../ramet-store.ts";
import { controllersAccount, StoreIdentity, type StoreIdentityArgs, whenStored } from "./store-identity.ts";

export interface GkeStoreIdentityArgs extends StoreIdentityArgs {
  /** The bucket's name. It must exist. */
  bucket: Input<string>;
  /** Below which keys checkpoints are kept, such as `ramet/production`. @default the whole bucket */
  prefix?: Input<string>;
  /** The id of the project with the cluster's workload identity pool. */
  project: Input<string>;
}

/** On GKE: a Google service account for which Ramet's controllers stand, with rights to a bucket that is there already. */
export class GkeStoreIdentity extends StoreIdentity<GkeStoreIdentityArgs> {
  constructor(name: string, args: GkeStoreIdentityArgs, opts: ComponentResourceOptions = {}) {
    super("ramet:index:GkeStoreIdentity", name, args, opts);
  }

  protected override make(name: string, args: GkeStoreIdentityArgs, options: CustomResourceOptions) {
    return gkeStoreRights(name, args, options);
  }

  protected override describeStore(
    { bucket, prefix }: GkeStoreIdentityArgs,
    made: Promise<Record<string, CustomResource>>,
  ): RametStore {
    return gcsStore({ bucket, ...(prefix !== undefined && { prefix }) }, made);
  }
}

/** The account may use the bucket: with rights of its own the controllers' Kubernetes account could too, and had nobody to sign what cells are given. */
export async function gkeStoreRights(
  name: string,
  { project, bucket }: Pick<GkeStoreIdentityArgs, "project" | "bucket">,
  options: CustomResourceOptions,
): Promise<Record<string, CustomResource>> {
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

/** The store as the controllers are told of it. */
export function gcsStore(
  place: Pick<GcsStore, "bucket" | "prefix">,
  made: Promise<Record<string, CustomResource>>,
): RametStore {
  return {
    gcs: { ...place, serviceAccount: whenStored(made, (resources) => (resources[accountName] as Account).email) },
  };
}
