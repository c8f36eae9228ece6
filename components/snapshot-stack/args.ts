import type { Input } from "@pulumi/pulumi";
import type { Cloud } from "../../provider/handlers/snapshot-stack/detect-cloud.ts";
import type { StackMode } from "../../provider/handlers/snapshot-stack/stack-request.ts";
import type { CloudTransform } from "../cloud-package.ts";
import type { Manifest } from "../../src/install/manifest.ts";
import type { AksStackArgs } from "./aks.ts";
import type { EksStackArgs } from "./eks.ts";
import type { GkeStackArgs } from "./gke.ts";
import type { SnapshotClassArgs } from "./snapshot-class.ts";

export interface SnapshotStackArgs {
  /** What the cluster is. A cluster of a cloud may also be treated as any other, with `generic`. */
  cloud: Cloud;
  /**
   * `auto` leaves to others what they own of CRDs, controller and add-ons, and declares the rest; `install` refuses what another manager
   * owns; `adopt` declares none of them but what this stack has declared before. Classes and a cloud's store are declared in any case.
   * @default "auto"
   */
  mode?: StackMode;
  /**
   * The kubeconfig, as text, of the cluster to look at, for a program that makes its cluster or a provider of its own.
   * @default as Pulumi's Kubernetes provider finds it by itself
   */
  kubeconfig?: Input<string>;
  /** @default for `eks`, `gke` and `aks` those of the cloud's block storage; else none */
  classes?: SnapshotClassArgs[];
  /** Whether volumes are also snapshotted in groups, for drivers that can. @default false */
  groupSnapshots?: boolean;
  /** Needed for `eks`. */
  eks?: EksStackArgs;
  /** For `gke`. */
  gke?: GkeStackArgs;
  /** For `aks`. */
  aks?: AksStackArgs;
  /** The controller of a `generic` cluster. */
  controller?: SnapshotControllerArgs;
  /** Changes each object that is declared in the cluster (`object`), and what a cloud is asked for (`cloud`), for what no argument says. */
  transform?: {
    object?: (manifest: Manifest) => Manifest;
    cloud?: CloudTransform;
  };
}

export interface SnapshotControllerArgs {
  /** @default the image of the version of the CRDs, from registry.k8s.io */
  image?: Input<string>;
  /** How many stand by; one of them works. @default 2 */
  replicas?: Input<number>;
  /** How many snapshots it works on at once. @default 50 */
  workers?: Input<number>;
  /** How many requests a second it may send to the API server, and twice as many for a moment. @default 100 */
  requestsPerSecond?: Input<number>;
  /** @default "kube-system" */
  namespace?: string;
}
