import { cloudFindings, cloudOf, type Cloud } from "./cloud-of.ts";
import type { Finding } from "./finding.ts";
import { classFindings, type ClassWish } from "./class-findings.ts";
import { crdNames, type StackSeen } from "./stack-seen.ts";
import { controllerFindings } from "./controller-findings.ts";
import { upgradeFindings } from "./upgrade-findings.ts";

export type StackMode = "auto" | "install" | "adopt";

/** What a program wishes of a snapshot stack. */
export interface StackWish {
  cloud: Cloud;
  mode: StackMode;
  groupSnapshots: boolean;
  /** Which resource of which stack asks. */
  owner: string;
  /** Where the controller is to stand. */
  controller: { namespace: string; name: string };
  classes: readonly ClassWish[];
  /** The add-ons that EKS is asked for, in this order. */
  addons: readonly AddonWish[];
  /** Whether a driver that is not there may still come before the classes do. */
  driversMayCome: boolean;
}

export interface AddonWish {
  addon: string;
  /** The CSI driver that it brings. */
  driver?: string;
  /** The DaemonSet that it is. */
  daemonSet?: string;
}

/** What a program declares, of what it found. */
export interface StackPlan {
  crds: boolean;
  groupCrds: boolean;
  controller: boolean;
  addons: string[];
  findings: Finding[];
}

/**
 * What is declared, and what is in the way: a pure function. Of what another looks after, nothing is declared.
 */
export function planStack(wish: StackWish, seen: StackSeen): StackPlan {
  const parts = partsOf(wish, seen);
  const choices = parts.map((part) => ({ part, ...choose(wish.mode, part) }));
  const declared = (name: Part["name"]): boolean => choices.some(({ part, declare }) => part.name === name && declare);
  const addons = choices.flatMap(({ part, declare }) => (part.addon !== undefined && declare ? [part.addon] : []));
  const plan = {
    ...{ crds: declared("crds"), groupCrds: declared("groupCrds"), controller: declared("controller"), addons },
  };
  return {
    ...plan,
    findings: [
      ...cloudFindings(wish.cloud, cloudOf(seen)),
      ...choices.flatMap(({ findings }) => findings),
      ...upgradeFindings(wish, plan, seen),
      ...classFindings(wish, seen),
      ...controllerFindings(wish, plan, seen),
      ...seen.unread.map(unreadFinding),
    ],
  };
}

/** One thing that snapshots need, of which there is one in a cluster. */
interface Part {
  name: "crds" | "groupCrds" | "controller" | "addon" | "managed";
  what: string;
  isThere: boolean;
  isOurs: boolean;
  manager: string;
  /** Whether this package can declare it. */
  isOffered: boolean;
  addon?: string;
  /** How it is got where this package cannot declare it. */
  how: string;
}

function choose(mode: StackMode, part: Part): { declare: boolean; findings: Finding[] } {
  const { what, isThere, isOurs, manager, isOffered, how } = part;
  const isAnothers = isThere && !isOurs;
  if (mode === "install" && isAnothers && isOffered) {
    const refusal = {
      code: "AlreadyExists",
      what: `${what} is there and belongs to ${manager}`,
      how: handOver,
    } as const;
    return { declare: false, findings: [{ ...refusal, weight: "refuse" }] };
  }
  if (isAnothers) return { declare: false, findings: [] };
  if (isOffered && (isOurs || mode !== "adopt")) return { declare: true, findings: [] };
  if (isThere) return { declare: false, findings: [] };
  return { declare: false, findings: [{ code: "NotFound", what: `${what} is not there`, how, weight: "refuse" }] };
}

const handOver =
  'Set mode to "auto" to leave them there, or have that manager give them up and annotate each with ramet.dev/pulumi-resource=ORGANIZATION/PROJECT/STACK/NAME';

function partsOf(wish: StackWish, seen: StackSeen): Part[] {
  const core = crdsPart("crds", crdNames.core, wish, seen);
  const groups = wish.groupSnapshots ? [crdsPart("groupCrds", crdNames.group, wish, seen)] : [];
  switch (wish.cloud) {
    case "generic":
      return [core, ...groups, controllerPart(wish, seen)];
    case "eks":
      return eksParts(wish, seen);
    case "gke":
    case "aks":
      return [core, ...groups];
    case "acs":
      return [core, ...groups, sandboxPart(seen)];
    case "local":
      return [];
  }
}

function crdsPart(name: "crds" | "groupCrds", names: string[], { cloud, owner }: StackWish, seen: StackSeen): Part {
  const found = seen.crds.filter((crd) => names.includes(crd.name));
  const others = found.filter(({ declaredBy }) => declaredBy !== owner);
  return {
    name,
    what: name === "crds" ? "The set of CRDs of volume snapshots" : "The set of CRDs of volume group snapshots",
    // Of a part of them that is another's, none is declared: they belong together.
    isThere: cloud === "generic" ? found.length > 0 : found.length === names.length,
    isOurs: found.length > 0 && others.length === 0,
    manager: others[0]?.manager ?? "",
    isOffered: cloud === "generic",
    how: howToGet[cloud],
  };
}

function controllerPart({ owner, cloud, mode }: StackWish, { controllers, leases }: StackSeen): Part {
  const other = controllers.find(({ declaredBy }) => declaredBy !== owner);
  return {
    name: "controller",
    what: "A snapshot-controller",
    isThere: controllers.length > 0 || (mode === "adopt" && leases.length > 0),
    isOurs: controllers.length > 0 && other === undefined,
    manager: other === undefined ? "" : `${other.manager} (Deployment ${other.namespace}/${other.name})`,
    isOffered: true,
    how: howToGet[cloud],
  };
}

/** The add-on with the controller brings the CRDs too, and owns them. */
function eksParts({ owner, addons }: StackWish, seen: StackSeen): Part[] {
  const isOurs = (addon: string): boolean =>
    seen.installed?.declaredBy === owner && seen.installed.addons.includes(addon);
  return addons.map((wish) => {
    const { addon } = wish;
    const { isThere, manager } = addonSeen(wish, seen);
    return {
      ...{ name: "addon", addon, what: `What the add-on ${addon} brings`, isOffered: true },
      ...{ isThere, isOurs: isThere && isOurs(addon), manager },
      how: `Install the EKS add-on ${addon}, or set mode to "auto"`,
    };
  });
}

function addonSeen({ driver, daemonSet }: AddonWish, seen: StackSeen): { isThere: boolean; manager: string } {
  const somebody = seen.installed?.declaredBy ?? "somebody else than this program";
  if (driver !== undefined) return { isThere: seen.drivers.includes(driver), manager: somebody };
  if (daemonSet !== undefined) return { isThere: seen.daemonSets.includes(daemonSet), manager: somebody };
  const found = seen.controllers[0] ?? seen.crds.find(({ name }) => crdNames.core.includes(name));
  return { isThere: found !== undefined, manager: found?.manager ?? "" };
}

function sandboxPart({ crds }: StackSeen): Part {
  const found = crds.filter(({ name }) => crdNames.sandboxes.includes(name));
  return {
    name: "managed",
    what: "The set of CRDs Sandbox and Checkpoint (agents.kruise.io)",
    isThere: found.length === crdNames.sandboxes.length,
    isOurs: false,
    manager: found[0]?.manager ?? "",
    isOffered: false,
    how: "Install the component for agent sandboxes in the ACS console: it brings them and their controller",
  };
}

function unreadFinding(plural: string): Finding {
  const what = `${plural} could not be read, so what they would show is not known`;
  return { code: "Forbidden", what, how: `Grant "list" on ${plural} to whoever runs pulumi`, weight: "tell" };
}

const howToGet: Readonly<Record<Cloud, string>> = {
  generic: 'Set mode to "auto" to have them installed',
  eks: "Install the EKS add-on snapshot-controller",
  gke: "Turn on the Compute Engine persistent disk CSI driver: gcloud container clusters update CLUSTER --update-addons=GcePersistentDiskCsiDriver=ENABLED",
  aks: "Turn on the snapshot controller: az aks update --name CLUSTER --resource-group GROUP --enable-snapshot-controller",
  acs: "Install the disk plugin (csi-plugin and csi-provisioner) in the ACS console",
  local: "A cluster on one machine has no volumes that could be snapshotted",
};
