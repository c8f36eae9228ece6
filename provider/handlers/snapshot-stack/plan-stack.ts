import { otherOrEarlier } from "../owner.ts";
import { type Cloud, cloudFindings, cloudOf } from "./cloud-of.ts";
import { controllerFindings } from "./controller-findings.ts";
import type { Finding } from "./finding.ts";
import { driverFindings, managedDriver } from "./managed-drivers.ts";
import { orphanFindings } from "./orphan-findings.ts";
import { type Part, partsOf } from "./stack-parts.ts";
import { bringsController, type SnapshotClassRequest, type StackRequest } from "./stack-request.ts";
import { type ClassSeen, crdNames, type CrdSeen, type StackSeen } from "./stack-seen.ts";
import { upgradeFindings } from "./upgrade-findings.ts";

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
export function planStack(wish: StackRequest, seen: StackSeen): StackPlan {
  const parts = partsOf(wish, seen);
  const choices = parts.map((part) => ({ part, ...choose(wish, part) }));
  const declared = (name: Part["name"]): boolean => choices.some(({ part, declare }) => part.name === name && declare);
  const addons = choices.flatMap(({ part, declare }) => (part.addon !== undefined && declare ? [part.addon] : []));
  const plan = {
    crds: declared("crds"),
    groupCrds: declared("groupCrds"),
    controller: declared("controller"),
    addons,
  };
  return {
    ...plan,
    findings: [
      ...cloudFindings(wish.cloud, cloudOf(seen)),
      ...choices.flatMap(({ findings }) => findings),
      ...crdFindings(wish, plan, seen),
      ...upgradeFindings(wish, plan, seen),
      ...driverFindings(wish, seen),
      ...classFindings(wish, seen),
      ...controllerFindings(wish, plan, seen),
      ...orphanFindings(wish, plan, seen.controllerObjects),
      ...seen.unread.map(unreadFinding),
    ],
  };
}

function choose({ mode, owners }: StackRequest, part: Part): { declare: boolean; findings: Finding[] } {
  const { what, isThere, isOurs, manager, marked, isOffered, how, handover } = part;
  if (isThere && !isOurs) {
    const mayBeOurs = mode === "auto" && marked !== undefined;
    if (!isOffered || (mode !== "install" && !mayBeOurs)) return { declare: false, findings: [] };
    const toDo =
      marked === undefined ? `Set mode to "auto" to leave it there, or ${handover}` : otherOrEarlier(owners[0], marked);
    return refused({ code: "AlreadyExists", what: `${what} is there and belongs to ${manager}`, how: toDo });
  }
  if (isOffered && (isOurs || mode !== "adopt")) return { declare: true, findings: [] };
  return isThere ? { declare: false, findings: [] } : refused({ code: "NotFound", what: `${what} is not there`, how });
}

function refused(finding: Omit<Finding, "weight">): { declare: false; findings: Finding[] } {
  return { declare: false, findings: [{ ...finding, weight: "refuse" }] };
}

function unreadFinding(plural: string): Finding {
  const what = `${plural} could not be read, so what they would show is not known`;
  return { code: "Forbidden", what, how: `Grant "list" on ${plural} to whoever runs pulumi`, weight: "tell" };
}

/** Whether CRDs that another looks after are all there, and in a version by which snapshots can be taken. */
function crdFindings(
  wish: StackRequest,
  plan: { crds: boolean; groupCrds: boolean; controller: boolean; addons: readonly string[] },
  { crds }: Pick<StackSeen, "crds">,
): Finding[] {
  const brought = wish.addons.some((each) => bringsController(each) && plan.addons.includes(each.addon));
  if (wish.cloud === "local" || brought) return [];
  const sets = [
    ...(plan.crds ? [] : [coreSet]),
    ...(plan.groupCrds || !wish.groupSnapshots
      ? []
      : [{ ...groupSet, weight: plan.controller ? ("refuse" as const) : ("tell" as const) }]),
  ];
  return sets.flatMap((set) => {
    const found = crds.filter(({ name }) => set.names.includes(name));
    return [...partFindings(set.names, found), ...found.flatMap((crd) => servedFindings(set, crd))];
  });
}

/** Versions of which one has to be served. */
interface CrdSet {
  names: readonly string[];
  versions: readonly string[];
  weight: Finding["weight"];
}

/** Until v4 external-snapshotter had v1beta1 alone. */
const coreSet: CrdSet = { names: crdNames.core, versions: ["v1"], weight: "refuse" };
/** What there was before v8.4 is of another shape. */
const groupSet = { names: crdNames.group, versions: ["v1", "v1beta2"] };

/** They belong together: a controller that finds one of them only does not start. */
function partFindings(names: readonly string[], found: readonly CrdSeen[]): Finding[] {
  const missing = names.filter((name) => !found.some((crd) => crd.name === name));
  if (found.length === 0 || missing.length === 0) return [];
  const managers = [...new Set(found.map(({ manager }) => manager))].join(" and ");
  const what = `${managers} has brought ${found.map(({ name }) => name).join(", ")} and not ${missing.join(", ")}, which belong together`;
  return [{ code: "NeedNotMet", what, how: "Have that manager bring them all", weight: "refuse" }];
}

function servedFindings({ versions, weight }: CrdSet, { name, served, manager }: CrdSeen): Finding[] {
  if (versions.some((version) => served.includes(version))) return [];
  const what = `the CRD ${name} of ${manager} serves ${served.join(", ") || "nothing"}, and snapshots are taken as ${versions.join(" or ")}`;
  return [{ code: "NeedNotMet", what, how: "Have that manager bring it to a newer version", weight }];
}

type Wish = Pick<StackRequest, "cloud" | "owners" | "classes" | "addons" | "driversMayCome">;

/** What is in the way of the classes that are wished, and of those that are there. */
function classFindings({ cloud, classes, owners, addons, driversMayCome }: Wish, seen: StackSeen): Finding[] {
  const brought = addons.flatMap(({ driver }) => driver ?? []);
  const absent = [...new Set(classes.map(({ driver }) => driver))]
    .filter((driver) => ![...seen.drivers, ...brought].includes(driver))
    .filter(() => !seen.unread.includes("csidrivers"));
  const others = seen.classes.filter(({ declaredBy = "" }) => !owners.includes(declaredBy));
  return [
    ...absent.map((driver) => ({
      ...absentDriver(driver, cloud, seen.drivers),
      weight: driversMayCome ? ("tell" as const) : ("refuse" as const),
    })),
    ...classes.flatMap(({ name }) => others.filter((other) => other.name === name).map(takenName)),
    ...defaultFindings(classes, others),
  ];
}

function absentDriver(driver: string, cloud: Cloud, drivers: readonly string[]): Omit<Finding, "weight"> {
  const known = drivers.length === 0 ? "no CSI driver at all" : drivers.join(", ");
  const what = `a class is for the driver ${driver}, which is not there; there is ${known}`;
  const managed = managedDriver(cloud);
  const how = managed?.name === driver ? managed.how : "Install the driver first, or leave the class out";
  return { code: "NotFound", what, how };
}

function takenName({ name, manager }: ClassSeen): Finding {
  const what = `the VolumeSnapshotClass ${name} is there and belongs to ${manager}`;
  return { code: "AlreadyExists", what, how: "Give the class another name", weight: "refuse" };
}

/** With two defaults for one driver, the controller refuses every snapshot that names no class. */
function defaultFindings(wished: readonly SnapshotClassRequest[], others: readonly ClassSeen[]): Finding[] {
  const drivers = new Set([...wished, ...others].map(({ driver }) => driver));
  return [...drivers].flatMap((driver): Finding[] => {
    const own = wished.filter((one) => one.driver === driver && one.isDefault).map(({ name }) => name);
    const there = others.filter((one) => one.driver === driver && one.isDefault).map(({ name }) => name);
    const names = [...there, ...own];
    if (names.length < 2) return [];
    const what = `${driver} would have ${names.length} default classes (${names.join(", ")}), and then no snapshot without a class can be taken`;
    const how =
      own.length > 0
        ? "Let one class alone be the default of a driver"
        : `Take the annotation snapshot.storage.kubernetes.io/is-default-class from all but one`;
    return [{ code: "Conflict", what, how, weight: own.length > 0 ? "refuse" : "tell" }];
  });
}
