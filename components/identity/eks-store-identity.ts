import type { Role } from "@pulumi/aws/iam/index.js";
import {
  all,
  type ComponentResourceOptions,
  type CustomResource,
  type CustomResourceOptions,
  type Input,
  interpolate,
  jsonStringify,
  output,
  type Output,
} from "@pulumi/pulumi";
import { formatStoreAddress } from "../../src/api/store/store-address.ts";
import { RametError } from "../../src/base/errors.ts";
import { cloudPackage } from "../cloud-package.ts";
import type { RametStore, S3Store } from "../ramet-store.ts";
import { runError, withRunError } from "../run-error.ts";
import { controllersAccount, StoreIdentity, type StoreIdentityArgs, whenStored } from "./store-identity.ts";

export interface EksStoreIdentityArgs extends EksIdentity, StoreIdentityArgs {
  /** The name of the cluster. */
  clusterName: Input<string>;
  /** The bucket's name. It must exist. */
  bucket: Input<string>;
  /** The bucket's region. */
  region: Input<string>;
  /** Below which keys checkpoints are kept, such as `ramet/production`: the right to objects ends there. @default the whole bucket */
  prefix?: Input<string>;
  /** The key with which the bucket is encrypted. @default S3's own */
  kmsKeyArn?: Input<string>;
  /** Of the role and its association. */
  tags?: Record<string, Input<string>>;
  /** `aws-cn` in China. @default "aws" */
  partition?: Input<string>;
}

/** On EKS: a role that Ramet's controllers alone may take, with rights to a bucket of S3 that is there already. */
export class EksStoreIdentity extends StoreIdentity<EksStoreIdentityArgs> {
  constructor(name: string, args: EksStoreIdentityArgs, opts: ComponentResourceOptions = {}) {
    super("ramet:index:EksStoreIdentity", name, args, opts);
  }

  protected override make(name: string, args: EksStoreIdentityArgs, options: CustomResourceOptions) {
    checkIdentity(args);
    const { bucket, below } = validatedLocation(args);
    const bucketArn = interpolate`arn:${args.partition ?? "aws"}:s3:::${bucket}`;
    return eksStoreRights(name, { ...args, bucketArn, objectsArn: interpolate`${bucketArn}/${below}` }, options);
  }

  protected override describeStore(
    { bucket, region, prefix, identity }: EksStoreIdentityArgs,
    made: Promise<Record<string, CustomResource>>,
  ): RametStore {
    return s3Store({ bucket, region, ...(prefix !== undefined && { prefix }) }, identity, made);
  }
}

/** As a store's address may have it: a bucket or a prefix that is none could be a pattern that allows more. @throws RunError */
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
  /** Of the bucket's objects, or those below a prefix: a pattern. */
  objectsArn: Input<string>;
  kmsKeyArn?: Input<string>;
  tags?: Record<string, Input<string>>;
}

/** The role with which the controllers may use a bucket. */
export async function eksStoreRights(
  name: string,
  args: EksRights,
  options: CustomResourceOptions,
): Promise<Record<string, CustomResource>> {
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

/** The store as the controllers are told of it; by Pod Identity they need not know their role. */
export function s3Store(
  place: Pick<S3Store, "bucket" | "region" | "prefix">,
  identity: EksIdentity["identity"],
  made: Promise<Record<string, CustomResource>>,
): RametStore {
  const known = whenStored(made, (resources) => all([output(place.bucket), (resources[roleName] as Role).arn]));
  const bucket = known.apply(([name]) => name);
  const roleArn = known.apply(([, arn]) => arn);
  return { s3: { ...place, bucket, ...(identity === "irsa" && { roleArn }) } };
}

/** How service accounts of a cluster of EKS get roles of IAM. */
export interface EksIdentity {
  /** How they get them. IRSA needs `oidcProviderArn`. @default "podIdentity" */
  identity?: "podIdentity" | "irsa";
  /** The cluster's OpenID Connect provider in IAM, for IRSA. */
  oidcProviderArn?: Input<string>;
}

/** @param path of the arguments, as the message names them: `eks.`, or nothing @throws RunError for what is missing */
export function checkIdentity({ identity, oidcProviderArn }: EksIdentity, path: "eks." | "" = ""): void {
  if (identity !== "irsa" || oidcProviderArn !== undefined) return;
  const what = "the ARN of the cluster's OpenID Connect provider in IAM";
  throw runError(new RametError("InvalidArgument", `${path}oidcProviderArn is missing: ${what}`));
}

interface ServiceAccountRef {
  namespace: string;
  serviceAccount: string;
}

/** Has the service account alone take a role: by IRSA the role says so, by Pod Identity the association with it. */
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
