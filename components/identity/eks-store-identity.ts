import type { Role } from "@pulumi/aws/iam/index.js";
import {
  all,
  type ComponentResourceOptions,
  type CustomResourceOptions,
  type Input,
  interpolate,
  jsonStringify,
  output,
  type Output,
} from "@pulumi/pulumi";
import { formatStoreAddress } from "../../src/api/store/store-address.ts";
import { defined } from "../../src/base/defined.ts";
import { RametError } from "../../src/base/errors.ts";
import { cloudPackage } from "../cloud-package.ts";
import type { RametStore, S3Store } from "../ramet-store.ts";
import { runError, withRunError } from "../run-error.ts";
import {
  type CloudResources,
  controllersAccount,
  StoreIdentity,
  type StoreIdentityArgs,
  whenStored,
} from "./store-identity.ts";

export interface EksStoreIdentityArgs extends EksIdentity, StoreIdentityArgs {
  /** The name of the cluster. */
  clusterName: Input<string>;
  /** The name of an existing bucket. */
  bucket: Input<string>;
  /** The bucket's region. */
  region: Input<string>;
  /**
   * The key prefix for checkpoints, such as `ramet/production`. The controllers can access objects only below it.
   * @default the whole bucket
   */
  prefix?: Input<string>;
  /** The ARN of the KMS key that encrypts the bucket. @default the key of S3 */
  kmsKeyArn?: Input<string>;
  /** Tags of the role and its Pod Identity association. */
  tags?: Record<string, Input<string>>;
  /** The AWS partition: `aws-cn` in China. @default "aws" */
  partition?: Input<string>;
}

/** For EKS: an IAM role, usable only by Ramet's controllers, with access to an existing S3 bucket. */
export class EksStoreIdentity extends StoreIdentity<EksStoreIdentityArgs> {
  constructor(name: string, args: EksStoreIdentityArgs, opts: ComponentResourceOptions = {}) {
    super(eksIdentity, name, args, opts);
  }
}

const eksIdentity = {
  type: "ramet:index:EksStoreIdentity",
  create: (name: string, args: EksStoreIdentityArgs, options: CustomResourceOptions) => {
    checkIdentity(args);
    const { bucket, below } = validatedLocation(args);
    const bucketArn = interpolate`arn:${args.partition ?? "aws"}:s3:::${bucket}`;
    return eksStoreRights(name, { ...args, bucketArn, objectsArn: interpolate`${bucketArn}/${below}` }, options);
  },
  storeOf: ({ bucket, region, prefix, identity }: EksStoreIdentityArgs, created: Promise<CloudResources>) =>
    s3Store(defined({ bucket, region, prefix }), identity, created),
};

/**
 * Validates bucket and prefix as parts of a store address. An invalid one could be a pattern that allows more.
 * @throws RunError
 */
function validatedLocation({
  bucket,
  region,
  prefix = "",
}: EksStoreIdentityArgs): Output<{ bucket: string; below: string }> {
  return output({ bucket, region, prefix }).apply(({ prefix: named, ...given }) => {
    const prefixed = named === "" ? {} : { prefix: named };
    withRunError(() => formatStoreAddress({ driver: "s3", ...given, ...prefixed }));
    return { bucket: given.bucket, below: named === "" ? "*" : `${named}/*` };
  });
}

export interface EksRights extends EksIdentity {
  clusterName: Input<string>;
  bucketArn: Input<string>;
  /** A pattern for the ARNs of the bucket's objects, or of those below a prefix. */
  objectsArn: Input<string>;
  kmsKeyArn?: Input<string>;
  tags?: Record<string, Input<string>>;
}

/** Creates the role with which the controllers access a bucket. */
export async function eksStoreRights(
  name: string,
  args: EksRights,
  options: CustomResourceOptions,
): Promise<CloudResources> {
  const iam = await cloudPackage("@pulumi/aws", () => import("@pulumi/aws/iam/index.js"));
  const { clusterName, tags = {}, identity = "podIdentity" } = args;
  const role = new iam.Role(name, { assumeRolePolicy: trust(args, controllersAccount), tags }, options);
  const rights = new iam.RolePolicy(name, { role: role.name, policy: storePolicy(args) }, options);
  const made = { [roleName]: role, "RolePolicy/store": rights };
  if (identity === "irsa") return made;
  const eks = await cloudPackage("@pulumi/aws", () => import("@pulumi/aws/eks/index.js"));
  const association = new eks.PodIdentityAssociation(
    name,
    { clusterName, ...controllersAccount, roleArn: role.arn, tags },
    options,
  );
  return { ...made, "PodIdentityAssociation/store": association };
}

const roleName = "Role/store";

function storePolicy({ bucketArn, objectsArn: Resource, kmsKeyArn }: EksRights): Input<string> {
  const Action = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"];
  return policy([
    { Effect: "Allow", Action, Resource },
    { Effect: "Allow", Action: "s3:ListBucket", Resource: bucketArn },
    ...(kmsKeyArn === undefined
      ? []
      : [{ Effect: "Allow", Action: ["kms:GenerateDataKey", "kms:Decrypt"], Resource: kmsKeyArn }]),
  ]);
}

/** The store for the argument `store` of a `RametRuntime`. With Pod Identity the controllers do not need the role's ARN. */
export function s3Store(
  place: Pick<S3Store, "bucket" | "region" | "prefix">,
  identity: EksIdentity["identity"],
  made: Promise<CloudResources>,
): RametStore {
  const known = whenStored(made, (resources) => all([output(place.bucket), (resources[roleName] as Role).arn]));
  const bucket = known.apply(([name]) => name);
  const roleArn = known.apply(([, arn]) => arn);
  return { s3: { ...place, bucket, ...(identity === "irsa" && { roleArn }) } };
}

/** How service accounts of an EKS cluster get IAM roles. */
export interface EksIdentity {
  /** EKS Pod Identity, or IAM roles for service accounts (IRSA), which needs `oidcProviderArn`. @default "podIdentity" */
  identity?: "podIdentity" | "irsa";
  /** The ARN of the cluster's OpenID Connect provider in IAM, for IRSA. */
  oidcProviderArn?: Input<string>;
}

/** @param path prefix of the arguments in the message @throws RunError if an argument is missing */
export function checkIdentity({ identity, oidcProviderArn }: EksIdentity, path: "eks." | "" = ""): void {
  if (identity !== "irsa" || oidcProviderArn !== undefined) return;
  const what = "the ARN of the cluster's OpenID Connect provider in IAM";
  throw runError(new RametError("InvalidArgument", `${path}oidcProviderArn is missing: IRSA needs ${what}`));
}

interface ServiceAccountRef {
  namespace: string;
  serviceAccount: string;
}

/**
 * A trust policy for a role that only the service account can assume. With Pod Identity the association names the
 * account.
 */
export function trust(
  { identity = "podIdentity", oidcProviderArn }: EksIdentity,
  account: ServiceAccountRef,
): Output<string> {
  if (identity === "podIdentity") {
    const Principal = { Service: "pods.eks.amazonaws.com" };
    return policy([{ Effect: "Allow", Principal, Action: ["sts:AssumeRole", "sts:TagSession"] }]);
  }
  return output(oidcProviderArn ?? "").apply((arn) => {
    const issuer = arn.replace(/^.*:oidc-provider\//, "");
    const subject = `system:serviceaccount:${account.namespace}:${account.serviceAccount}`;
    const Condition = { StringEquals: { [`${issuer}:aud`]: "sts.amazonaws.com", [`${issuer}:sub`]: subject } };
    const Principal = { Federated: arn };
    return policy([{ Effect: "Allow", Principal, Action: "sts:AssumeRoleWithWebIdentity", Condition }]);
  });
}

export function policy(Statement: readonly Record<string, unknown>[]): Output<string> {
  return jsonStringify({ Version: "2012-10-17", Statement });
}
