import { defined } from "../../../src/base/defined.ts";
import { ownerConflictHint } from "../owner.ts";
import { controllerFindings } from "./controller-findings.ts";
import { type Cloud, cloudFindings, detectCloud } from "./detect-cloud.ts";
import { RametError } from "../../../src/base/errors.ts";
import type { Finding } from "../../../src/preflight/finding.ts";
import { crdNames, type ObservedClass, type ObservedCrd } from "../../../src/preflight/snapshot-objects.ts";
import type { ObservedCluster } from "./observed-cluster.ts";
import { orphanFindings, upgradeFindings } from "./upgrade-findings.ts";
import {
  driverFindings,
  managedDriver,
  type Part,
  partsOf,
  bringsController,
  type SnapshotClassRequest,
  type StackRequest,
} from "./stack-parts.ts";

/** The declarations of a program, and the findings. */
export interface StackPlan {
  crds: boolean;
  groupCrds: boolean;
  controller: boolean;
  addons: string[];
  findings: Finding[];
}

/**
 * Plans what to declare and reports conflicts: a pure function. Parts with another manager are not declared.
 */
export function planStack(request: StackRequest, observed: ObservedCluster): StackPlan {
  const parts = partsOf(request, observed);
  const choices = parts.map((part) => ({ part, ...choose(request, part) }));
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
      ...cloudFindings(request.cloud, detectCloud(observed)),
      ...choices.flatMap(({ findings }) => findings),
      ...crdFindings(request, plan, observed),
      ...upgradeFindings(request, plan, observed),
      ...driverFindings(request, observed),
      ...classFindings(request, observed),
      ...controllerFindings(request, plan, observed),
      ...orphanFindings(request, plan, observed.controllerObjects),
      ...observed.unread.map(unreadFinding),
    ],
  };
}

/** @throws RametError with all errors among the findings, if there are any */
export function throwOnErrors(cloud: string, findings: readonly Finding[]): void {
  const [first, ...others] = findings.filter(({ level }) => level === "error");
  if (first === undefined) return;
  const rest = others.map(({ message, action = "" }) => `. Also: ${message} (${action})`).join("");
  throw new RametError(
    first.code ?? "NeedNotMet",
    `Cannot declare the snapshot stack for ${cloud}: ${first.message}${rest}`,
    defined({ hint: first.action }),
  );
}

function choose({ mode, owners }: StackRequest, part: Part): { declare: boolean; findings: Finding[] } {
  const { title, isThere, isOurs, manager, marked, isOffered, hint, handoverSteps } = part;
  if (isThere && !isOurs) {
    const mayBeOurs = mode === "auto" && marked !== undefined;
    if (!isOffered || (mode !== "install" && !mayBeOurs)) return { declare: false, findings: [] };
    const toDo =
      marked === undefined
        ? `Set mode to "auto" to keep it, or ${handoverSteps}`
        : ownerConflictHint(owners[0], marked);
    return refused({
      check: "snapshot-stack",
      code: "AlreadyExists",
      message: `${title} exists and belongs to ${manager}`,
      action: toDo,
    });
  }
  if (isOffered && (isOurs || mode !== "adopt")) return { declare: true, findings: [] };
  return isThere
    ? { declare: false, findings: [] }
    : refused({ check: "snapshot-stack", code: "NotFound", message: `${title} does not exist`, action: hint });
}

function refused(finding: Omit<Finding, "level">): { declare: false; findings: Finding[] } {
  return { declare: false, findings: [{ ...finding, level: "error" }] };
}

function unreadFinding(plural: string): Finding {
  const message = `reading ${plural} is forbidden, so their state is unknown`;
  return {
    check: "rbac",
    code: "Forbidden",
    message,
    action: `Grant "list" on ${plural} to the user that runs pulumi`,
    level: "warning",
  };
}

/** Checks that the CRDs of another manager are complete and serve a version with which snapshots can be taken. */
function crdFindings(
  request: StackRequest,
  plan: { crds: boolean; groupCrds: boolean; controller: boolean; addons: readonly string[] },
  { crds }: Pick<ObservedCluster, "crds">,
): Finding[] {
  const installed = request.addons.some((each) => bringsController(each) && plan.addons.includes(each.addon));
  if (request.cloud === "local" || installed) return [];
  const sets = [
    ...(plan.crds ? [] : [coreSet]),
    ...(plan.groupCrds || !request.groupSnapshots
      ? []
      : [{ ...groupSet, level: plan.controller ? ("error" as const) : ("warning" as const) }]),
  ];
  return sets.flatMap((set) => {
    const found = crds.filter(({ name }) => set.names.includes(name));
    return [...partFindings(set.names, found), ...found.flatMap((crd) => servedFindings(set, crd))];
  });
}

/** CRDs that belong together, and the versions of which one must be served. */
interface CrdSet {
  names: readonly string[];
  versions: readonly string[];
  level: Finding["level"];
}

/** Until v4 external-snapshotter had only v1beta1. */
const coreSet: CrdSet = { names: crdNames.core, versions: ["v1"], level: "error" };
/** Versions before v8.4 have another schema. */
const groupSet = { names: crdNames.group, versions: ["v1", "v1beta2"] };

/** A controller does not start unless all CRDs exist. */
function partFindings(names: readonly string[], found: readonly ObservedCrd[]): Finding[] {
  const missing = names.filter((name) => !found.some((crd) => crd.name === name));
  if (found.length === 0 || missing.length === 0) return [];
  const managers = [...new Set(found.map(({ manager }) => manager))].join(" and ");
  const message = `${managers} installed ${found.map(({ name }) => name).join(", ")} without ${missing.join(", ")}, which belong together`;
  return [
    {
      check: "snapshot-crds",
      code: "NeedNotMet",
      message,
      action: "Install all of them with that manager",
      level: "error",
    },
  ];
}

function servedFindings({ versions, level }: CrdSet, { name, served, manager }: ObservedCrd): Finding[] {
  if (versions.some((version) => served.includes(version))) return [];
  const message = `the CRD ${name} of ${manager} serves ${served.join(", ") || "no version"}, but ${versions.join(" or ")} is required`;
  return [
    {
      check: "snapshot-crds",
      code: "NeedNotMet",
      message,
      action: "Upgrade it to a newer version with that manager",
      level,
    },
  ];
}

type ClassRequest = Pick<StackRequest, "cloud" | "owners" | "classes" | "addons" | "driversMayCome">;

/** Reports conflicts of requested and existing classes. */
function classFindings(
  { cloud, classes, owners, addons, driversMayCome }: ClassRequest,
  observed: ObservedCluster,
): Finding[] {
  const installed = addons.flatMap(({ driver }) => driver ?? []);
  const absent = [...new Set(classes.map(({ driver }) => driver))]
    .filter((driver) => ![...observed.drivers, ...installed].includes(driver))
    .filter(() => !observed.unread.includes("csidrivers"));
  const others = observed.classes.filter(({ declaredBy = "" }) => !owners.includes(declaredBy));
  return [
    ...absent.map((driver) => ({
      ...absentDriver(driver, cloud, observed.drivers),
      level: driversMayCome ? ("warning" as const) : ("error" as const),
    })),
    ...classes.flatMap(({ name }) => others.filter((other) => other.name === name).map(takenName)),
    ...defaultFindings(classes, others),
  ];
}

function absentDriver(driver: string, cloud: Cloud, drivers: readonly string[]): Omit<Finding, "level"> {
  const known = drivers.length === 0 ? "none" : drivers.join(", ");
  const message = `a class uses the driver ${driver}, which is not installed; installed drivers: ${known}`;
  const managed = managedDriver(cloud);
  const action = managed?.name === driver ? managed.hint : "Install the driver first, or remove the class";
  return { check: "snapshot-drivers", code: "NotFound", message, action };
}

function takenName({ name, manager }: ObservedClass): Finding {
  const message = `the VolumeSnapshotClass ${name} exists and belongs to ${manager}`;
  return {
    check: "snapshot-classes",
    code: "AlreadyExists",
    message,
    action: "Use another name for the class",
    level: "error",
  };
}

/** If a driver has two default classes, the controller rejects every snapshot without a class. */
function defaultFindings(requested: readonly SnapshotClassRequest[], others: readonly ObservedClass[]): Finding[] {
  const drivers = new Set([...requested, ...others].map(({ driver }) => driver));
  return [...drivers].flatMap((driver): Finding[] => {
    const own = requested.filter((one) => one.driver === driver && one.isDefault).map(({ name }) => name);
    const there = others.filter((one) => one.driver === driver && one.isDefault).map(({ name }) => name);
    const names = [...there, ...own];
    if (names.length < 2) return [];
    const message = `${driver} would have ${names.length} default classes (${names.join(", ")}), and snapshots without a class would fail`;
    const action =
      own.length > 0
        ? "Set only one default class for a driver"
        : `Remove the annotation snapshot.storage.kubernetes.io/is-default-class from all but one`;
    return [
      { check: "snapshot-classes", code: "Conflict", message, action, level: own.length > 0 ? "error" : "warning" },
    ];
  });
}
