import type { Cloud } from "./detect-cloud.ts";

export type StackMode = "auto" | "install" | "adopt";

/** What a program wishes of a snapshot stack. */
export interface StackRequest {
  cloud: Cloud;
  mode: StackMode;
  groupSnapshots: boolean;
  /** Which resource of which stack asks, and under which names it did before. */
  owners: readonly [string, ...string[]];
  /** Where the controller is to stand. */
  controller: { namespace: string; name: string };
  classes: readonly SnapshotClassRequest[];
  /** The add-ons that EKS is asked for, in this order. */
  addons: readonly AddonRequest[];
  /** Whether a driver that is not there may still come before the classes do. */
  driversMayCome: boolean;
}

/** One VolumeSnapshotClass. */
export interface SnapshotClassRequest {
  name: string;
  driver: string;
  isDefault: boolean;
}

export interface AddonRequest {
  addon: string;
  /** The CSI driver that it brings. */
  driver?: string;
  /** The DaemonSet that it is. */
  daemonSet?: string;
}

/** Whether it is the add-on with the controller, which brings the CRDs too. */
export function bringsController({ driver, daemonSet }: AddonRequest): boolean {
  return driver === undefined && daemonSet === undefined;
}
