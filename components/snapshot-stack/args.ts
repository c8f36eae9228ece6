import { type Input, runtime } from "@pulumi/pulumi";
import type { Cloud } from "../../provider/handlers/snapshot-stack/detect-cloud.ts";
import type { StackMode, AddonRequest, StackRequest } from "../../provider/handlers/snapshot-stack/stack-parts.ts";
import type { CloudTransform } from "../cloud-package.ts";
import type { Manifest } from "../../src/install/manifest.ts";
import type { AksStackArgs } from "./aks.ts";
import { type EksStackArgs, addonNames } from "./eks.ts";
import type { GkeStackArgs } from "./gke.ts";
import { type SnapshotClassArgs, classesOf, type DeclaredClass } from "./snapshot-class.ts";
import { controllerNames, podIdentityAgent } from "../../provider/handlers/snapshot-stack/observed-cluster.ts";
import { driverNames } from "../../provider/handlers/snapshot-stack/class-parameters.ts";

export interface SnapshotStackArgs {
  /** The kind of cluster. `generic` also works for a cluster of a cloud. */
  cloud: Cloud;
  /**
   * How CRDs, controller and add-ons are declared. `auto` leaves those of other managers alone and declares the rest;
   * `install` fails if another manager owns one; `adopt` declares only those that this stack declared before. Classes
   * and the cloud's store are always declared.
   * @default "auto"
   */
  mode?: StackMode;
  /**
   * The kubeconfig of the cluster as text, for a program that creates its cluster or its own Kubernetes provider.
   * @default the kubeconfig that Pulumi's Kubernetes provider uses
   */
  kubeconfig?: Input<string>;
  /**
   * The VolumeSnapshotClasses to declare.
   * @default the classes of the cloud's block storage for `eks`, `gke` and `aks`, else none
   */
  classes?: SnapshotClassArgs[];
  /** Whether to support volume group snapshots, for drivers that implement them. @default false */
  groupSnapshots?: boolean;
  /** Settings for `eks`. Required there. */
  eks?: EksStackArgs;
  /** Settings for `gke`. */
  gke?: GkeStackArgs;
  /** Settings for `aks`. */
  aks?: AksStackArgs;
  /** Settings of the snapshot controller of a `generic` cluster. */
  controller?: SnapshotControllerArgs;
  /**
   * Changes each declared object of the cluster (`object`) or resource of the cloud (`cloud`), for settings that have
   * no argument.
   */
  transform?: {
    object?: (manifest: Manifest) => Manifest;
    cloud?: CloudTransform;
  };
}

export interface SnapshotControllerArgs {
  /** The image of the snapshot controller. @default the image from registry.k8s.io in the version of the CRDs */
  image?: Input<string>;
  /** Number of replicas. One is active; another one takes over when it stops. @default 2 */
  replicas?: Input<number>;
  /** Number of snapshots that are processed in parallel. @default 50 */
  workers?: Input<number>;
  /** Maximum requests to the API server per second. Bursts may be twice as large. @default 100 */
  requestsPerSecond?: Input<number>;
  /** The namespace of the controller. @default "kube-system" */
  namespace?: string;
}

/** The classes of a stack. @throws RunError if options of another driver are set */
export function classesFor({ cloud, classes, eks }: SnapshotStackArgs): DeclaredClass[] {
  const own = eks?.autoMode === true ? [{ driver: driverNames.ebsAutoMode }] : defaultClasses[cloud];
  return (classes ?? own).flatMap(classesOf);
}

export function stackRequestFor(
  owners: StackRequest["owners"],
  args: SnapshotStackArgs,
  classes: readonly DeclaredClass[],
): StackRequest {
  const { cloud, mode = "auto", groupSnapshots = false, controller } = args;
  return {
    cloud,
    mode,
    groupSnapshots,
    owners,
    controller: { namespace: controller?.namespace ?? controllerNamespace, name: controllerNames.controller },
    classes: classes.map(({ name: className, driver, isDefault }) => ({ name: className, driver, isDefault })),
    addons: cloud === "eks" ? eksAddons(args.eks) : [],
    // A dependency of the stack may install a driver, which a preview cannot see yet.
    driversMayCome: cloud === "generic" && runtime.isDryRun(),
  };
}

function eksAddons({ autoMode = false, identity }: Partial<EksStackArgs> = {}): AddonRequest[] {
  if (autoMode) return [{ addon: addonNames.controller }];
  return [
    { addon: addonNames.controller },
    ...(identity === "irsa" ? [] : [{ addon: addonNames.podIdentity, daemonSet: podIdentityAgent }]),
    { addon: addonNames.driver, driver: driverNames.ebs },
  ];
}

/** The namespace of the controller in upstream's manifests. */
export const controllerNamespace = "kube-system";

const defaultClasses: Readonly<Record<Cloud, SnapshotClassArgs[]>> = {
  eks: [{ driver: driverNames.ebs }],
  gke: [{ driver: driverNames.pd }],
  aks: [{ driver: driverNames.azureDisk }],
  acs: [],
  generic: [],
  local: [],
};
