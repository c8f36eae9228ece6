import type { Bucket } from "@pulumi/aws/s3/index.js";
import { type CustomResource, type CustomResourceOptions, type Input, interpolate, output } from "@pulumi/pulumi";
import { cloudPackage } from "../cloud-package.ts";
import { type EksIdentity, eksStoreRights, s3Store } from "../identity/eks-store-identity.ts";
import type { RametStore } from "../ramet-store.ts";

/** An S3 bucket for checkpoints. */
export interface EksStackStore {
  /** The name of the bucket to create. */
  bucket: Input<string>;
  /** The ARN of the KMS key that encrypts the bucket. @default the key of S3 */
  kmsKeyArn?: Input<string>;
}

export interface EksBucketArgs extends EksIdentity {
  clusterName: Input<string>;
  store: EksStackStore;
  tags?: Record<string, Input<string>>;
}

/** Creates the bucket and a role with which the controllers access it. A bucket that is not empty is never deleted. */
export async function eksBucketResources(
  name: string,
  { store, ...args }: EksBucketArgs,
  options: CustomResourceOptions,
): Promise<Record<string, CustomResource>> {
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
  const made = { [bucketName]: bucket, "BucketPublicAccessBlock/store": closed };
  const rights = await eksStoreRights(
    `${name}-store`,
    {
      ...args,
      bucketArn: bucket.arn,
      objectsArn: interpolate`${bucket.arn}/*`,
      ...(kmsKeyArn !== undefined && { kmsKeyArn }),
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
  made: Promise<Record<string, CustomResource>>,
): RametStore {
  if (store === undefined) return {};
  const region = output(made).apply((resources) => (resources[bucketName] as Bucket).region);
  return s3Store({ bucket: store.bucket, region }, identity, made);
}
