import {
  type CustomResource,
  type CustomResourceOptions,
  type Input,
  all,
  jsonStringify,
  output,
  type Output,
  interpolate,
} from "@pulumi/pulumi";
import type { Bucket } from "@pulumi/aws/s3/index.js";
import { defined } from "../../src/base/defined.ts";
import { cloudPackage } from "../cloud-package.ts";
import { policy, trust, type EksIdentity, eksStoreRights, s3Store } from "../identity/eks-store-identity.ts";
import { type CloudResources, remainsDays } from "../identity/store-identity.ts";
import type { RametStore } from "../ramet-store.ts";

/** AWS resources of a snapshot stack. `identity` selects how the driver and the controllers get their roles. */
export interface EksStackArgs extends EksIdentity {
  /** The name of the cluster. */
  clusterName: Input<string>;
  /**
   * Whether the cluster uses EKS Auto Mode, which includes a CSI driver. Then neither the driver add-on nor its role is
   * created. @default false
   */
  autoMode?: boolean;
  /**
   * The managed policy of the driver's role. `account` covers volumes and snapshots of all clusters in the account that
   * have the driver's tag (AmazonEBSCSIDriverPolicyV2). `cluster` covers only those of this cluster, which other
   * clusters cannot restore until they are tagged again (AmazonEBSCSIDriverEKSClusterScopedPolicy). @default "account"
   */
  scope?: "account" | "cluster";
  /** ARNs of the KMS keys that encrypt volumes and snapshots. @default the account's key for EBS */
  kmsKeyArns?: Input<string>[];
  /** Creates a bucket for checkpoints, with access for the controllers' service account. @default none */
  store?: EksStackStore;
  /** Tags of the roles, the add-ons, the bucket, and all volumes and snapshots that the driver creates. */
  tags?: Record<string, Input<string>>;
  /** Versions of the add-ons. @default the versions that EKS selects for the cluster */
  versions?: { driver?: Input<string>; snapshotController?: Input<string> };
  /** The AWS partition: `aws-cn` in China. @default "aws" */
  partition?: Input<string>;
}

export const addonNames = {
  controller: "snapshot-controller",
  podIdentity: "eks-pod-identity-agent",
  driver: "aws-ebs-csi-driver",
} as const;
const account = { namespace: "kube-system", serviceAccount: "ebs-csi-controller-sa" };

interface EksRequest {
  args: EksStackArgs;
  /** The add-ons to install. */
  addons: readonly string[];
  before: readonly CustomResource[];
}

/** Creates the add-ons of a plan, the role of the driver, and the store. */
export async function eksResources(
  name: string,
  request: EksRequest,
  options: CustomResourceOptions,
): Promise<CloudResources> {
  const { store, ...args } = request.args;
  const addons = await addonResources(name, request, options);
  return store === undefined ? addons : { ...addons, ...(await eksBucketResources(name, { ...args, store }, options)) };
}

async function addonResources(
  name: string,
  { args, addons, before }: EksRequest,
  options: CustomResourceOptions,
): Promise<CloudResources> {
  const eks = await cloudPackage("@pulumi/aws", () => import("@pulumi/aws/eks/index.js"));
  const { clusterName, versions = {}, tags = {} } = args;
  const shared = {
    clusterName,
    tags,
    // Take over objects that a deleted add-on left running.
    resolveConflictsOnCreate: "OVERWRITE",
    resolveConflictsOnUpdate: "PRESERVE",
    // Keep the objects of a deleted add-on: deleting the CRDs would delete all snapshots.
    preserve: true,
  };
  const addon = (addonName: string, given: object, dependsOn: CustomResource[]): CustomResource =>
    new eks.Addon(
      `${name}-${addonName}`,
      { ...shared, addonName, ...given },
      { ...options, dependsOn: [...before, ...dependsOn] },
    );
  const made: Record<string, CustomResource> = {};
  for (const addonName of addons.filter((one) => one !== addonNames.driver)) {
    const version = addonName === addonNames.controller ? versions.snapshotController : undefined;
    made[`Addon/${addonName}`] = addon(addonName, versionOf(version), []);
  }
  if (!addons.includes(addonNames.driver)) return made;
  const { arn, rights, resources } = await driverRole(name, args, options);
  const identity =
    args.identity === "irsa"
      ? { serviceAccountRoleArn: arn }
      : { podIdentityAssociations: [{ roleArn: arn, serviceAccount: account.serviceAccount }] };
  const given = { ...identity, ...versionOf(versions.driver), configurationValues: driverConfiguration(args) };
  // Without the CRDs the driver's snapshotter restarts repeatedly.
  const driver = addon(addonNames.driver, given, [...rights, ...Object.values(made)]);
  return { ...made, [`Addon/${addonNames.driver}`]: driver, ...resources };
}

function versionOf(addonVersion: Input<string> | undefined): { addonVersion?: Input<string> } {
  return addonVersion === undefined ? {} : { addonVersion };
}

/** The configuration of the driver add-on (its Helm chart's values). */
function driverConfiguration({ clusterName, scope, tags = {} }: EksStackArgs): Output<string> {
  const controller = { extraVolumeTags: tags, ...(scope === "cluster" && { k8sTagClusterId: clusterName }) };
  return jsonStringify({ controller });
}

async function driverRole(name: string, args: EksStackArgs, options: CustomResourceOptions) {
  const iam = await cloudPackage("@pulumi/aws", () => import("@pulumi/aws/iam/index.js"));
  const { tags = {}, scope = "account", partition = "aws", kmsKeyArns = [], clusterName } = args;
  const role = new iam.Role(
    `${name}-ebs-csi`,
    // The cluster-scoped policy reads the cluster's name from the session tags of Pod Identity, or with IRSA from the
    // role's tags.
    {
      assumeRolePolicy: trust(args, account),
      tags: { ...tags, ...(scope === "cluster" && { "eks-cluster-name": clusterName }) },
    },
    options,
  );
  const policyArn = output(partition).apply((of) => `arn:${of}:iam::aws:policy/${managedPolicies[scope]}`);
  const attachment = new iam.RolePolicyAttachment(`${name}-ebs-csi`, { role: role.name, policyArn }, options);
  const keys =
    kmsKeyArns.length === 0
      ? []
      : [new iam.RolePolicy(`${name}-ebs-csi-keys`, { role: role.name, policy: keyPolicy(kmsKeyArns) }, options)];
  const resources: Record<string, CustomResource> = {
    "Role/ebs-csi": role,
    "RolePolicyAttachment/ebs-csi": attachment,
  };
  for (const policy of keys) resources["RolePolicy/ebs-csi-keys"] = policy;
  return { arn: role.arn, rights: [attachment, ...keys], resources };
}

/** Names as in the AWS reference of managed policies. Neither ARN has `service-role` in its path. */
const managedPolicies = {
  account: "AmazonEBSCSIDriverPolicyV2",
  cluster: "AmazonEBSCSIDriverEKSClusterScopedPolicy",
} as const;

/** Permissions for KMS keys, which the managed policies leave out. Grants are restricted to AWS resources such as EBS. */
function keyPolicy(arns: Input<string>[]): Output<string> {
  return all(arns).apply((Resource) =>
    policy([
      { Effect: "Allow", Action: ["kms:Decrypt", "kms:GenerateDataKeyWithoutPlaintext"], Resource },
      {
        Effect: "Allow",
        Action: ["kms:CreateGrant"],
        Resource,
        Condition: { Bool: { "kms:GrantIsForAWSResource": "true" } },
      },
    ]),
  );
}

/** An S3 bucket for checkpoints. */
export interface EksStackStore {
  /** The name of the bucket to create. */
  bucket: Input<string>;
  /** The ARN of the KMS key that encrypts the bucket. @default the key of S3 */
  kmsKeyArn?: Input<string>;
}

interface EksBucketArgs extends EksIdentity {
  clusterName: Input<string>;
  store: EksStackStore;
  tags?: Record<string, Input<string>>;
}

/** Creates the bucket and a role with which the controllers access it. A bucket that is not empty is never deleted. */
async function eksBucketResources(
  name: string,
  { store, ...args }: EksBucketArgs,
  options: CustomResourceOptions,
): Promise<CloudResources> {
  const s3 = await cloudPackage("@pulumi/aws", () => import("@pulumi/aws/s3/index.js"));
  const { kmsKeyArn } = store;
  const bucket = new s3.Bucket(`${name}-store`, { bucket: store.bucket, tags: args.tags ?? {} }, options);
  const closed = new s3.BucketPublicAccessBlock(
    `${name}-store`,
    {
      bucket: bucket.bucket,
      blockPublicAcls: true,
      blockPublicPolicy: true,
      ignorePublicAcls: true,
      restrictPublicBuckets: true,
    },
    options,
  );
  const cleaned = new s3.BucketLifecycleConfiguration(
    `${name}-store`,
    {
      bucket: bucket.bucket,
      rules: [
        {
          id: "remains",
          status: "Enabled",
          filter: { prefix: "" },
          abortIncompleteMultipartUpload: { daysAfterInitiation: remainsDays },
          noncurrentVersionExpiration: { noncurrentDays: remainsDays },
        },
      ],
    },
    options,
  );
  const made = {
    [bucketName]: bucket,
    "BucketPublicAccessBlock/store": closed,
    "BucketLifecycleConfiguration/store": cleaned,
  };
  const rights = await eksStoreRights(
    `${name}-store`,
    {
      ...args,
      bucketArn: bucket.arn,
      objectsArn: interpolate`${bucket.arn}/*`,
      ...defined({ kmsKeyArn }),
    },
    options,
  );
  if (kmsKeyArn === undefined) return { ...made, ...rights };
  const encryption = new s3.BucketServerSideEncryptionConfiguration(
    `${name}-store`,
    {
      bucket: bucket.bucket,
      rules: [
        {
          applyServerSideEncryptionByDefault: { sseAlgorithm: "aws:kms", kmsMasterKeyId: kmsKeyArn },
          bucketKeyEnabled: true,
        },
      ],
    },
    options,
  );
  return { ...made, ...rights, "BucketServerSideEncryptionConfiguration/store": encryption };
}

const bucketName = "Bucket/store";

/** The store for the argument `store` of a `RametRuntime`. */
export function eksStore(
  { store, identity }: Pick<EksBucketArgs, "identity"> & { store?: EksStackStore },
  made: Promise<CloudResources>,
): RametStore {
  if (store === undefined) return {};
  const region = output(made).apply((resources) => (resources[bucketName] as Bucket).region);
  return s3Store({ bucket: store.bucket, region }, identity, made);
}
