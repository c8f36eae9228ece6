import type { CustomResource, CustomResourceOptions, Input } from "@pulumi/pulumi";
import { all, jsonStringify, output, type Output } from "@pulumi/pulumi";
import { cloudPackage } from "../cloud-package.ts";
import { policy, trust, type EksIdentity } from "../identity/eks-store-identity.ts";
import { eksBucketResources, type EksStackStore } from "./eks-bucket.ts";

/** What EKS is asked for. `identity` says how the driver and the controllers get their roles. */
export interface EksStackArgs extends EksIdentity {
  /** The name of the cluster. */
  clusterName: Input<string>;
  /**
   * Whether the cluster is one of Auto Mode, which brings a driver of its own: then no add-on with a driver is asked for, and no role.
   * @default false
   */
  autoMode?: boolean;
  /**
   * The managed policy of the driver's role. `account`: volumes and snapshots of all clusters of the account that bear the driver's tag
   * (AmazonEBSCSIDriverPolicyV2). `cluster`: those of this cluster alone, which others cannot restore until they are tagged anew
   * (AmazonEBSCSIDriverEKSClusterScopedPolicy). @default "account"
   */
  scope?: "account" | "cluster";
  /** Keys with which volumes and snapshots are encrypted, where that is not the account's own key of EBS. */
  kmsKeyArns?: Input<string>[];
  /** A bucket for checkpoints, and the right to it for the controllers' service account. @default none */
  store?: EksStackStore;
  /** Of the roles, the add-ons, the bucket, and all volumes and snapshots that the driver makes. */
  tags?: Record<string, Input<string>>;
  /** @default that which EKS takes for the cluster's version */
  versions?: { driver?: Input<string>; snapshotController?: Input<string> };
  /** `aws-cn` in China. @default "aws" */
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
  /** The add-ons that are not there yet. */
  addons: readonly string[];
  before: readonly CustomResource[];
}

/** The add-ons that a plan has EKS install, the role of the driver, and the store. */
export async function eksResources(
  name: string,
  request: EksRequest,
  options: CustomResourceOptions,
): Promise<Record<string, CustomResource>> {
  const { store, ...args } = request.args;
  const addons = await addonResources(name, request, options);
  return store === undefined ? addons : { ...addons, ...(await eksBucketResources(name, { ...args, store }, options)) };
}

async function addonResources(
  name: string,
  { args, addons, before }: EksRequest,
  options: CustomResourceOptions,
): Promise<Record<string, CustomResource>> {
  const eks = await cloudPackage("@pulumi/aws", () => import("@pulumi/aws/eks/index.js"));
  const { clusterName, versions = {}, tags = {} } = args;
  const shared = {
    clusterName,
    tags,
    // What a deleted add-on leaves running is taken over by the next.
    resolveConflictsOnCreate: "OVERWRITE",
    resolveConflictsOnUpdate: "PRESERVE",
    // Without an add-on its objects stay: with the CRDs all snapshots would go.
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
  // A driver that starts without the CRDs starts its snapshotter again and again.
  const driver = addon(addonNames.driver, given, [...rights, ...Object.values(made)]);
  return { ...made, [`Addon/${addonNames.driver}`]: driver, ...resources };
}

function versionOf(addonVersion: Input<string> | undefined): { addonVersion?: Input<string> } {
  return addonVersion === undefined ? {} : { addonVersion };
}

/** The settings of the add-on with the driver (its Helm chart's values). */
function driverConfiguration({ clusterName, scope, tags = {} }: EksStackArgs): Output<string> {
  const controller = { extraVolumeTags: tags, ...(scope === "cluster" && { k8sTagClusterId: clusterName }) };
  return jsonStringify({ controller });
}

async function driverRole(name: string, args: EksStackArgs, options: CustomResourceOptions) {
  const iam = await cloudPackage("@pulumi/aws", () => import("@pulumi/aws/iam/index.js"));
  const { tags = {}, scope = "account", partition = "aws", kmsKeyArns = [], clusterName } = args;
  const role = new iam.Role(
    `${name}-ebs-csi`,
    // Pod Identity tells of the cluster by itself; for IRSA the cluster's policy reads it from the role.
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

/** AWS's reference of managed policies gives their names and ARNs: neither has `service-role` in its path. */
const managedPolicies = {
  account: "AmazonEBSCSIDriverPolicyV2",
  cluster: "AmazonEBSCSIDriverEKSClusterScopedPolicy",
} as const;

/** What the managed policies leave out: a grant of a key goes to EBS alone. */
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
