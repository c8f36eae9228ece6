import { ownerAnnotation } from "../../../src/api/names/labels.ts";
import { driverNames } from "./class-parameters.ts";
import type { Cloud } from "./detect-cloud.ts";
import { crdNames, type ObservedController } from "../../../src/preflight/snapshot-objects.ts";
import { installedMap, removal, type ObservedCluster, type ObservedObject } from "./observed-cluster.ts";

const managedByGke =
  "Enable the Compute Engine persistent disk CSI driver: gcloud container clusters update CLUSTER --update-addons=GcePersistentDiskCsiDriver=ENABLED";
const managedByAcs = "Install the disk plugin (csi-plugin and csi-provisioner) in the ACS console";

/** The block storage driver that a cloud manages, and how to enable it. */
export const managedDrivers: Partial<Record<Cloud, { name: string; hint: string }>> = {
  gke: { name: driverNames.pd, hint: managedByGke },
  aks: {
    name: driverNames.azureDisk,
    hint: "Enable the disk driver: az aks update --name CLUSTER --resource-group GROUP --enable-disk-driver",
  },
  acs: { name: driverNames.alibabaDisk, hint: managedByAcs },
};

/** A part that snapshots need and that exists once in a cluster. */
export interface Part {
  name: "crds" | "groupCrds" | "controller" | "addon" | "managed";
  title: string;
  isThere: boolean;
  isOurs: boolean;
  manager: string;
  /** If another resource of a program declares it: arguments for `kubectl` that name the annotated object. */
  marked?: string | undefined;
  /** Whether this package can declare the part. */
  isOffered: boolean;
  addon?: string;
  /** The steps before a program can declare a part of another manager: the rest of a sentence. */
  handoverSteps: string;
  /** How to install the part if this package cannot declare it. */
  hint: string;
}

/** The parts that a request needs, with their managers. */
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
    title: name === "crds" ? "The set of CRDs of volume snapshots" : "The set of CRDs of volume group snapshots",
    // The CRDs belong together, so if another manager owns one, none is declared.
    isThere: found.length > 0,
    isOurs: found.length > 0 && others.length === 0,
    manager: others[0]?.manager ?? "",
    isOffered: cloud === "generic",
    handoverSteps: `release them from that manager, then run: kubectl annotate --overwrite crd ${names.join(" ")} ${ownerAnnotation}=${owners[0]}`,
    hint: name === "groupCrds" && cloud !== "generic" ? noGroups : installationHints[cloud],
  };
}

const noGroups =
  "Remove groupSnapshots, which the block storage drivers of EKS, GKE and AKS do not support; for another driver, install the CRDs with it";

function controllerPart(
  { owners, cloud, mode }: StackRequest,
  { controllers, controllerObjects, leases }: ObservedCluster,
): Part {
  const other = controllers.find((observed) => !isOf(owners, observed));
  return {
    name: "controller",
    title: "A snapshot-controller",
    isThere: controllers.length > 0 || (mode === "adopt" && leases.length > 0),
    // A second controller is reported, and ours is kept.
    isOurs: controllers.some((observed) => isOf(owners, observed)),
    manager: other === undefined ? "" : `${other.manager} (Deployment ${other.namespace}/${other.name})`,
    marked: other?.declaredBy === undefined ? undefined : `deployment ${other.name} --namespace ${other.namespace}`,
    isOffered: true,
    handoverSteps: `remove it and its objects with that manager (snapshots wait meanwhile); by hand: ${removal(withRights(other, controllerObjects))}`,
    hint: installationHints[cloud],
  };
}

/** A Deployment and the other existing objects of a controller. */
function withRights(controller: ObservedController | undefined, objects: readonly ObservedObject[]): ObservedObject[] {
  if (controller === undefined) return [...objects];
  const rest = objects.filter(({ kind, name }) => kind !== "Deployment" || name !== controller.name);
  return [{ ...controller, kind: "Deployment" }, ...rest];
}

/** The add-on with the controller also installs and owns the CRDs. */
function eksParts({ owners, addons }: StackRequest, observed: ObservedCluster): Part[] {
  const { installed } = observed;
  const isOurs = installed !== undefined && isOf(owners, installed);
  return addons.map((request) => {
    const { addon } = request;
    const { isThere, manager } = addonSeen(request, observed);
    return {
      name: "addon",
      addon,
      title: `The content of the add-on ${addon}`,
      isOffered: true,
      isThere,
      isOurs: isThere && isOurs && installed.addons.includes(addon),
      manager,
      marked: !isOurs && installed?.addons.includes(addon) ? marked : undefined,
      handoverSteps: `release it from EKS first, which keeps it running: aws eks delete-addon --preserve --cluster-name CLUSTER --addon-name ${addon}`,
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
  const manager = observed.installed?.declaredBy ?? "another manager than this program";
  if (driver !== undefined) return { isThere: observed.drivers.includes(driver), manager: manager };
  if (daemonSet !== undefined) return { isThere: observed.daemonSets.includes(daemonSet), manager: manager };
  const found = observed.controllers[0] ?? observed.crds.find(({ name }) => crdNames.core.includes(name));
  return { isThere: found !== undefined, manager: found?.manager ?? "" };
}

const marked = `configmap ${installedMap.name} --namespace ${installedMap.namespace}`;

/** Ramet's own CRDs have the same names, so they are no evidence of ACS. */
function sandboxPart({ crds, hasSandboxController }: ObservedCluster): Part {
  const found = crds.filter(
    ({ name, isRamets }) => crdNames.sandboxes.includes(name) && (!isRamets || hasSandboxController),
  );
  return {
    name: "managed",
    title: "The set of CRDs Sandbox and Checkpoint (agents.kruise.io) of ACS",
    isThere: found.length === crdNames.sandboxes.length,
    isOurs: false,
    manager: found[0]?.manager ?? "",
    isOffered: false,
    handoverSteps: "",
    hint: "Install the component for agent sandboxes in the ACS console, with the CRDs and their controller",
  };
}

/** How to install the CRDs and the controller. */
export const installationHints: Readonly<Record<Cloud, string>> = {
  generic: 'Set mode to "auto" to install them',
  eks: "Install the EKS add-on snapshot-controller",
  gke: managedByGke,
  aks: "Enable the snapshot controller: az aks update --name CLUSTER --resource-group GROUP --enable-snapshot-controller",
  acs: managedByAcs,
  local: "A cluster on one machine does not support volume snapshots",
};

export type StackMode = "auto" | "install" | "adopt";

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

export interface SnapshotClassRequest {
  name: string;
  driver: string;
  isDefault: boolean;
}

export interface AddonRequest {
  addon: string;
  driver?: string;
  daemonSet?: string;
}

/** Whether the add-on installs the controller and the CRDs. */
export function bringsController({ driver, daemonSet }: AddonRequest): boolean {
  return driver === undefined && daemonSet === undefined;
}

export interface DeclaredParts {
  crds: boolean;
  groupCrds: boolean;
  controller: boolean;
  addons: string[];
}

export interface Situation {
  request: StackRequest;
  plan: DeclaredParts;
  observed: ObservedCluster;
}
