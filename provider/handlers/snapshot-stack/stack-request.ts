import type { Cloud } from "./detect-cloud.ts";

export type StackMode = "auto" | "install" | "adopt";

/** The snapshot stack that a program requests. */
export interface StackRequest {
  cloud: Cloud;
  mode: StackMode;
  groupSnapshots: boolean;
  /** The declaring resource under its current name, followed by its earlier names. */
  owners: readonly [string, ...string[]];
  /** Namespace and name of the controller's Deployment. */
  controller: { namespace: string; name: string };
  classes: readonly SnapshotClassRequest[];
  /** The EKS add-ons, in order of installation. */
  addons: readonly AddonRequest[];
  /** Whether a missing driver may be installed before the classes are created. */
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
  /** The CSI driver that the add-on installs. */
  driver?: string;
  /** The DaemonSet that the add-on installs. */
  daemonSet?: string;
}

/** Whether the add-on installs the controller and the CRDs. */
export function bringsController({ driver, daemonSet }: AddonRequest): boolean {
  return driver === undefined && daemonSet === undefined;
}
