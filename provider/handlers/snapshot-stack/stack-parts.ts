import { ownerAnnotation } from "../owner.ts";
import { driverNames } from "./class-parameters.ts";
import type { Cloud } from "./detect-cloud.ts";
import type { Finding } from "./finding.ts";
import {
  crdNames,
  installedMap,
  type ObservedCluster,
  type ObservedController,
  type ObservedObject,
} from "./observed-cluster.ts";
import { removal } from "./orphan-findings.ts";
import type { AddonRequest, StackRequest } from "./stack-request.ts";

/** The driver of block storage that a cloud brings, and how it is turned on. */
const managedDrivers = {
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

/** One thing that snapshots need, of which there is one in a cluster. */
export interface Part {
  name: "crds" | "groupCrds" | "controller" | "addon" | "managed";
  problem: string;
  isThere: boolean;
  isOurs: boolean;
  manager: string;
  /** Where another resource of a program declares it, and it would go with that: the object that says so, as `kubectl` is told of it. */
  marked?: string | undefined;
  /** Whether this package can declare it. */
  isOffered: boolean;
  addon?: string;
  /** What has to be done before a program can declare what is another's: the rest of a sentence. */
  handoverSteps: string;
  /** How it is got where this package cannot declare it. */
  hint: string;
}

/** What a wish needs of the cluster, and who looks after each. */
export function partsOf(request: StackRequest, observed: ObservedCluster): Part[] {
  const core = crdsPart("crds", crdNames.core, request, observed);
  const groups = request.groupSnapshots ? [crdsPart("groupCrds", crdNames.group, request, observed)] : [];
  switch (request.cloud) {
    case "generic":
      return [core, ...groups, controllerPart(request, observed)];
    case "eks":
      return [...eksParts(request, observed), ...groups];
    case "gke":
    case "aks":
      return [core, ...groups];
    case "acs":
      return [core, ...groups, sandboxPart(observed)];
    case "local":
      return [];
  }
}

function crdsPart(
  name: "crds" | "groupCrds",
  names: string[],
  { cloud, owners }: StackRequest,
  observed: ObservedCluster,
): Part {
  const found = observed.crds.filter((crd) => names.includes(crd.name));
  const others = found.filter((crd) => !isOf(owners, crd));
  return {
    name,
    problem: name === "crds" ? "The set of CRDs of volume snapshots" : "The set of CRDs of volume group snapshots",
    // Of a part of them that is another's, none is declared: they belong together.
    isThere: found.length > 0,
    isOurs: found.length > 0 && others.length === 0,
    manager: others[0]?.manager ?? "",
    isOffered: cloud === "generic",
    handoverSteps: `have that manager give it up, and then say whose it is: kubectl annotate --overwrite crd ${names.join(" ")} ${ownerAnnotation}=${owners[0]}`,
    hint: name === "groupCrds" && cloud !== "generic" ? noGroups : installationHints[cloud],
  };
}

const noGroups =
  "Leave groupSnapshots out: the drivers of block storage of EKS, GKE and AKS take none; else have whoever brings a driver that can bring the CRDs";

function controllerPart(
  { owners, cloud, mode }: StackRequest,
  { controllers, controllerObjects, leases }: ObservedCluster,
): Part {
  const other = controllers.find((observed) => !isOf(owners, observed));
  return {
    name: "controller",
    problem: "A snapshot-controller",
    isThere: controllers.length > 0 || (mode === "adopt" && leases.length > 0),
    // One that has come beside it is told of; ours goes on.
    isOurs: controllers.some((observed) => isOf(owners, observed)),
    manager: other === undefined ? "" : `${other.manager} (Deployment ${other.namespace}/${other.name})`,
    marked: other?.declaredBy === undefined ? undefined : `deployment ${other.name} --namespace ${other.namespace}`,
    isOffered: true,
    handoverSteps: `have that manager remove it with all that it was installed with, while snapshots wait. By hand: ${removal(withRights(other, controllerObjects))}`,
    hint: installationHints[cloud],
  };
}

/** A Deployment, and what is there of the rights of a controller. */
function withRights(controller: ObservedController | undefined, objects: readonly ObservedObject[]): ObservedObject[] {
  if (controller === undefined) return [...objects];
  const rest = objects.filter(({ kind, name }) => kind !== "Deployment" || name !== controller.name);
  return [{ ...controller, kind: "Deployment" }, ...rest];
}

/** The add-on with the controller brings the CRDs too, and owns them. */
function eksParts({ owners, addons }: StackRequest, observed: ObservedCluster): Part[] {
  const { installed } = observed;
  const isOurs = installed !== undefined && isOf(owners, installed);
  return addons.map((request) => {
    const { addon } = request;
    const { isThere, manager } = addonSeen(request, observed);
    return {
      name: "addon",
      addon,
      problem: `What the add-on ${addon} brings`,
      isOffered: true,
      isThere,
      isOurs: isThere && isOurs && installed.addons.includes(addon),
      manager,
      marked: !isOurs && installed?.addons.includes(addon) ? marked : undefined,
      handoverSteps: `have EKS give it up first, which leaves it running: aws eks delete-addon --preserve --cluster-name CLUSTER --addon-name ${addon}`,
      hint: `Install the EKS add-on ${addon}, or set mode to "auto"`,
    };
  });
}

function isOf(owners: readonly string[], { declaredBy }: { declaredBy: string | undefined }): boolean {
  return declaredBy !== undefined && owners.includes(declaredBy);
}

function addonSeen(
  { driver, daemonSet }: AddonRequest,
  observed: ObservedCluster,
): { isThere: boolean; manager: string } {
  const somebody = observed.installed?.declaredBy ?? "somebody else than this program";
  if (driver !== undefined) return { isThere: observed.drivers.includes(driver), manager: somebody };
  if (daemonSet !== undefined) return { isThere: observed.daemonSets.includes(daemonSet), manager: somebody };
  const found = observed.controllers[0] ?? observed.crds.find(({ name }) => crdNames.core.includes(name));
  return { isThere: found !== undefined, manager: found?.manager ?? "" };
}

const marked = `configmap ${installedMap.name} --namespace ${installedMap.namespace}`;

/** Ramet's own CRDs have the same names, and say nothing of ACS. */
function sandboxPart({ crds, hasSandboxController }: ObservedCluster): Part {
  const found = crds.filter(
    ({ name, isRamets }) => crdNames.sandboxes.includes(name) && (!isRamets || hasSandboxController),
  );
  return {
    name: "managed",
    problem: "The set of CRDs Sandbox and Checkpoint (agents.kruise.io) of ACS",
    isThere: found.length === crdNames.sandboxes.length,
    isOurs: false,
    manager: found[0]?.manager ?? "",
    isOffered: false,
    handoverSteps: "",
    hint: "Install the component for agent sandboxes in the ACS console: it brings them and their controller",
  };
}

/** How the CRDs and the controller are got. */
export const installationHints: Readonly<Record<Cloud, string>> = {
  generic: 'Set mode to "auto" to have them installed',
  eks: "Install the EKS add-on snapshot-controller",
  gke: managedDrivers.gke.hint,
  aks: "Turn on the snapshot controller: az aks update --name CLUSTER --resource-group GROUP --enable-snapshot-controller",
  acs: managedDrivers.acs.hint,
  local: "A cluster on one machine has no volumes that could be snapshotted",
};
