import { driverNames } from "./class-parameters.ts";
import type { Cloud } from "./cloud-of.ts";
import type { Finding } from "./finding.ts";
import type { ObservedCluster } from "./stack-seen.ts";
import type { StackRequest } from "./stack-request.ts";

/** The driver of block storage that a cloud brings, and how it is turned on. */
export const managedDrivers = {
  gke: {
    name: driverNames.pd,
    hint: "Turn on the Compute Engine persistent disk CSI driver: gcloud container clusters update CLUSTER --update-addons=GcePersistentDiskCsiDriver=ENABLED",
  },
  aks: {
    name: driverNames.azureDisk,
    hint: "Turn on the disk driver: az aks update --name CLUSTER --resource-group GROUP --enable-disk-driver",
  },
  acs: {
    name: driverNames.alibabaDisk,
    hint: "Install the disk plugin (csi-plugin and csi-provisioner) in the ACS console",
  },
} as const;

/** Undefined of a cloud that brings none by itself. */
export function managedDriver(cloud: Cloud): { name: string; hint: string } | undefined {
  return (managedDrivers as Partial<Record<Cloud, { name: string; hint: string }>>)[cloud];
}

/** Where no class asks for the cloud's driver, it is said that it is off; where one does, that is refused. */
export function driverFindings({ cloud, classes }: StackRequest, { drivers, unread }: ObservedCluster): Finding[] {
  const managed = managedDriver(cloud);
  if (managed === undefined || drivers.includes(managed.name) || unread.includes("csidrivers")) return [];
  if (classes.some(({ driver }) => driver === managed.name)) return [];
  const problem = `the driver ${managed.name} is not there`;
  return [{ code: "NotFound", problem, hint: managed.hint, severity: "warning" }];
}
