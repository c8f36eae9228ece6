import type { Bucket } from "@pulumi/aws/s3/index.js";
import type { Role } from "@pulumi/aws/iam/index.js";
import { all, interpolate, type CustomResource, type CustomResourceOptions, type Input } from "@pulumi/pulumi";
import { controllerName, systemNamespace } from "../../src/api/system-names.ts";
import { cloudPackage } from "../cloud-package.ts";
import type { RametStore } from "../ramet-store.ts";
import { policy, trust, type EksIdentity } from "./eks-identity.ts";
import { whenStored } from "./when-stored.ts";

/** A bucket for checkpoints. */
export interface EksStackStore {
  /** The name of the bucket. */
  bucket: Input<string>;
  /** The key with which it is encrypted. @default S3's own */
  kmsKeyArn?: Input<string>;
}

export interface EksStoreArgs extends EksIdentity {
  clusterName: Input<string>;
  store: EksStackStore;
  tags?: Record<string, Input<string>>;
}

const account = { namespace: systemNamespace, serviceAccount: controllerName };

/** The bucket, which is not removed while it holds anything, and a role with which the controllers may use it. */
export async function eksStoreResources(
  name: string,
  args: EksStoreArgs,
  options: CustomResourceOptions,
): Promise<Record<string, CustomResource>> {
  const s3 = await cloudPackage("@pulumi/aws", () => import("@pulumi/aws/s3/index.js"));
  const { store, tags = {} } = args;
  const bucket = new s3.Bucket(`${name}-store`, { bucket: store.bucket, tags }, options);
  const closed = new s3.BucketPublicAccessBlock(
    `${name}-store`,
    {
      bucket: bucket.bucket,
      ...{ blockPublicAcls: true, blockPublicPolicy: true, ignorePublicAcls: true, restrictPublicBuckets: true },
    },
    options,
  );
  const made = { "Bucket/store": bucket, "BucketPublicAccessBlock/store": closed };
  const rights = await storeRights(name, { ...args, bucketArn: bucket.arn }, options);
  if (store.kmsKeyArn === undefined) return { ...made, ...rights };
  const encryption = new s3.BucketServerSideEncryptionConfiguration(
    `${name}-store`,
    {
      bucket: bucket.bucket,
      rules: [
        {
          applyServerSideEncryptionByDefault: { sseAlgorithm: "aws:kms", kmsMasterKeyId: store.kmsKeyArn },
          bucketKeyEnabled: true,
        },
      ],
    },
    options,
  );
  return { ...made, ...rights, "BucketServerSideEncryptionConfiguration/store": encryption };
}

async function storeRights(
  name: string,
  args: EksStoreArgs & { bucketArn: Input<string> },
  options: CustomResourceOptions,
): Promise<Record<string, CustomResource>> {
  const iam = await cloudPackage("@pulumi/aws", () => import("@pulumi/aws/iam/index.js"));
  const { clusterName, tags = {}, identity = "podIdentity" } = args;
  const role = new iam.Role(`${name}-store`, { assumeRolePolicy: trust(args, account), tags }, options);
  const rights = new iam.RolePolicy(`${name}-store`, { role: role.name, policy: storePolicy(args) }, options);
  const made = { "Role/store": role, "RolePolicy/store": rights };
  if (identity === "irsa") return made;
  const eks = await cloudPackage("@pulumi/aws", () => import("@pulumi/aws/eks/index.js"));
  const association = new eks.PodIdentityAssociation(
    `${name}-store`,
    { clusterName, ...account, roleArn: role.arn, tags },
    options,
  );
  return { ...made, "PodIdentityAssociation/store": association };
}

function storePolicy({ bucketArn, store }: { bucketArn: Input<string>; store: EksStackStore }): Input<string> {
  const Resource = interpolate`${bucketArn}/*`;
  const Action = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"];
  return policy([
    { Effect: "Allow", Action, Resource },
    { Effect: "Allow", Action: "s3:ListBucket", Resource: bucketArn },
    ...(store.kmsKeyArn === undefined
      ? []
      : [{ Effect: "Allow", Action: ["kms:GenerateDataKey", "kms:Decrypt"], Resource: store.kmsKeyArn }]),
  ]);
}

/** The store as the controllers are told of it; by Pod Identity they need not know their role. */
export function eksStore(
  { store, identity }: Pick<EksStoreArgs, "identity"> & { store?: EksStackStore },
  made: Promise<Record<string, CustomResource>>,
): RametStore {
  if (store === undefined) return {};
  const told = whenStored(made, (resources) =>
    all([(resources["Bucket/store"] as Bucket).region, (resources["Role/store"] as Role).arn]),
  );
  const region = told.apply(([first]) => first);
  const roleArn = told.apply(([, second]) => second);
  return { s3: { bucket: store.bucket, region, ...(identity === "irsa" && { roleArn }) } };
}
