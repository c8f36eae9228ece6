import { defined } from "../../../src/base/defined.ts";
import type { ErrorCode } from "../../../src/base/error-codes.ts";
import { RametError } from "../../../src/base/errors.ts";
import { checkNamed, type Finding, refusal } from "../../../src/preflight/finding.ts";
import { crdNames, type ObservedController, type ObservedCrd } from "../../../src/preflight/snapshot-objects.ts";
import { ownerConflictHint } from "../owner.ts";
import { cloudFindings, detectCloud } from "./detect-cloud.ts";
import { controllerLease, type ObservedCluster } from "./observed-cluster.ts";
import {
  bringsController,
  installationHints,
  managedDrivers,
  type Situation,
  type DeclaredParts,
  type Part,
  partsOf,
  type StackRequest,
} from "./stack-parts.ts";
import { orphanFindings, upgradeFindings } from "./upgrade-findings.ts";

export function* stackFindings(at: Situation): Generator<Finding> {
  yield* crdFindings(at);
  yield* upgradeFindings(at);
  yield* driverFindings(at);
  yield* classFindings(at);
  yield* controllerFindings(at);
  if (at.request.cloud === "acs") yield* sandboxFindings(at);
  yield* orphanFindings(at);
  for (const plural of at.observed.unread) {
    const message = `reading ${plural} is forbidden, so their state is unknown`;
    const action = `Grant "list" on ${plural} to the user that runs pulumi`;
    yield { ...checkNamed("rbac").warning(message, action), code: "Forbidden" };
  }
}

/** Checks that the CRDs of another manager are complete and serve a version with which snapshots can be taken. */
function* crdFindings({ request, plan, observed }: Situation): Generator<Finding> {
  const installed = request.addons.some((each) => bringsController(each) && plan.addons.includes(each.addon));
  if (request.cloud === "local" || installed) return;
  // Until v4 external-snapshotter had only v1beta1.
  if (!plan.crds) yield* setFindings(observed.crds, crdNames.core, ["v1"], "error");
  if (plan.groupCrds || !request.groupSnapshots) return;
  // Versions before v8.4 have another schema.
  yield* setFindings(observed.crds, crdNames.group, ["v1", "v1beta2"], plan.controller ? "error" : "warning");
}

/** A controller does not start unless all CRDs of a set exist, each with one of the versions. */
function* setFindings(
  crds: readonly ObservedCrd[],
  names: readonly string[],
  versions: readonly string[],
  level: "error" | "warning",
): Generator<Finding> {
  const found = crds.filter(({ name }) => names.includes(name));
  const missing = names.filter((name) => !found.some((crd) => crd.name === name));
  if (found.length > 0 && missing.length > 0) {
    const managers = [...new Set(found.map(({ manager }) => manager))].join(" and ");
    const message = `${managers} installed ${found.map(({ name }) => name).join(", ")} without ${missing.join(", ")}, which belong together`;
    yield refusal("snapshot-crds", "NeedNotMet", message, "Install all of them with that manager");
  }
  for (const { name, served, manager } of found) {
    if (versions.some((version) => served.includes(version))) continue;
    const message = `the CRD ${name} of ${manager} serves ${served.join(", ") || "no version"}, but ${versions.join(" or ")} is required`;
    const action = "Upgrade it to a newer version with that manager";
    yield { ...refusal("snapshot-crds", "NeedNotMet", message, action), level };
  }
}

/** Warns if the cloud's driver is missing and no class uses it. A class that uses it causes an error elsewhere. */
function* driverFindings({
  request: { cloud, classes },
  observed: { drivers, unread },
}: Situation): Generator<Finding> {
  const managed = managedDrivers[cloud];
  if (managed === undefined || drivers.includes(managed.name) || unread.includes("csidrivers")) return;
  if (classes.some(({ driver }) => driver === managed.name)) return;
  yield checkNamed("snapshot-drivers").warning(`the driver ${managed.name} is not installed`, managed.hint);
}

function* classFindings({ request, observed }: Situation): Generator<Finding> {
  const { cloud, classes, owners, addons, driversMayCome } = request;
  const available = [...observed.drivers, ...addons.map(({ driver }) => driver)];
  const absent = new Set(classes.map(({ driver }) => driver).filter((driver) => !available.includes(driver)));
  const known = observed.drivers.length === 0 ? "none" : observed.drivers.join(", ");
  const managed = managedDrivers[cloud];
  for (const driver of observed.unread.includes("csidrivers") ? [] : absent) {
    const message = `a class uses the driver ${driver}, which is not installed; installed drivers: ${known}`;
    const action = managed?.name === driver ? managed.hint : "Install the driver first, or remove the class";
    const level = driversMayCome ? "warning" : "error";
    yield { ...refusal("snapshot-drivers", "NotFound", message, action), level };
  }
  const others = observed.classes.filter(({ declaredBy = "" }) => !owners.includes(declaredBy));
  for (const { name, manager } of others.filter((other) => classes.some(({ name }) => name === other.name))) {
    const message = `the VolumeSnapshotClass ${name} exists and belongs to ${manager}`;
    yield refusal("snapshot-classes", "AlreadyExists", message, "Use another name for the class");
  }
  // If a driver has two default classes, the controller rejects every snapshot without a class.
  const defaults = Object.groupBy(
    [...others, ...classes].filter(({ isDefault }) => isDefault),
    ({ driver }) => driver,
  );
  for (const [driver, found = []] of Object.entries(defaults)) {
    if (found.length < 2) continue;
    const names = found.map(({ name }) => name).join(", ");
    const message = `${driver} would have ${found.length} default classes (${names}), and snapshots without a class would fail`;
    yield classes.some((own) => found.includes(own))
      ? refusal("snapshot-classes", "Conflict", message, "Set only one default class for a driver")
      : checkNamed("snapshot-classes").warning(message, keepOneDefault);
  }
}

const keepOneDefault = "Remove the annotation snapshot.storage.kubernetes.io/is-default-class from all but one";

/** Checks that exactly one controller is visible and fits the CRDs. */
function* controllerFindings(at: Situation): Generator<Finding> {
  const { request, plan, observed } = at;
  const { leases, crds } = observed;
  const [lease] = leases;
  const hasCrds = crds.some(({ name }) => crdNames.core.includes(name));
  if (observed.controllers.length > 0) yield* deploymentFindings(at);
  else if (lease !== undefined && plan.controller) {
    // Two controllers conflict. A controller that was just removed looks the same.
    const message = `a controller without a visible Deployment holds the lease ${lease.namespace}/${controllerLease} (${lease.holder})`;
    const action = 'If it was just removed, try again in a minute; otherwise set mode to "adopt"';
    yield refusal("snapshot-controller", "AlreadyExists", message, action);
  } else if (
    lease === undefined &&
    request.cloud !== "local" &&
    hasCrds &&
    !plan.controller &&
    plan.addons.length === 0
  ) {
    const action =
      request.cloud === "generic" || request.cloud === "eks"
        ? "Install the controller with the manager that installed the snapshot CRDs"
        : `${installationHints[request.cloud]}; if it is enabled, the cloud runs it outside the cluster`;
    const message =
      "no snapshot-controller is visible (neither a Deployment nor a lease); without one, snapshots wait forever";
    yield checkNamed("snapshot-controller").warning(message, action);
  }
}

/** If the CRDs of ACS are missing too, another finding reports that. */
function* sandboxFindings({ observed: { crds, hasSandboxController } }: Situation): Generator<Finding> {
  const areThere = crds.some(({ name, isRamets }) => crdNames.sandboxes.includes(name) && !isRamets);
  if (hasSandboxController || !areThere) return;
  const message = "no sandbox controller renews its lease; without one, checkpoints wait forever";
  const action =
    "Check in the ACS console that the component for agent sandboxes runs; ACS may run it outside the cluster";
  yield checkNamed("sandbox-controller").warning(message, action);
}

function* deploymentFindings({ request, plan, observed }: Situation): Generator<Finding> {
  const check = "snapshot-controller";
  const [first] = observed.controllers;
  if (first !== undefined && !observed.controllers.some(({ isAvailable }) => isAvailable)) {
    const message = `no Pod of the Deployment ${first.namespace}/${first.name} is available, so snapshots wait`;
    const action = `Find the cause with: kubectl describe pods --namespace ${first.namespace} --selector app.kubernetes.io/name=snapshot-controller`;
    yield checkNamed(check).warning(message, action);
  }
  const others = observed.controllers.filter(({ declaredBy = "" }) => !request.owners.includes(declaredBy));
  for (const { namespace, name, manager } of plan.controller ? others : []) {
    const message = `the Deployment ${namespace}/${name} of ${manager} is a second snapshot-controller; two controllers conflict`;
    yield checkNamed(check).warning(message, "Remove one of the two");
  }
  const { groupSnapshots } = request;
  for (const one of plan.crds || groupSnapshots ? others : []) {
    if (!isOlder(one, groupSnapshots)) continue;
    const { namespace, name, manager, image } = one;
    const message = `the Deployment ${namespace}/${name} of ${manager} runs ${image}, which is older than the CRDs of v8.6`;
    const level = groupSnapshots ? "error" : "warning";
    yield { ...refusal(check, "NeedNotMet", message, "Upgrade it to v8 with that manager"), level };
  }
}

/**
 * Before v8.2 group snapshots had the version v1alpha1, which the CRDs of v8.6 no longer have. Otherwise an old
 * controller works with new CRDs.
 */
function isOlder({ image }: ObservedController, groupSnapshots: boolean): boolean {
  const [, major = "", minor = ""] = /:v(\d+)\.(\d+)/.exec(image) ?? [];
  if (major === "") return false;
  return Number(major) < 8 || (groupSnapshots && major === "8" && Number(minor) < 2);
}

export interface StackPlan extends DeclaredParts {
  findings: Finding[];
}

/**
 * Plans what to declare and reports conflicts: a pure function. Parts with another manager are not declared.
 */
export function planStack(request: StackRequest, observed: ObservedCluster): StackPlan {
  const choices = partsOf(request, observed).map((part) => ({ part, ...choose(request, part) }));
  const declared = choices.filter(({ declare }) => declare).map(({ part }) => part);
  const plan: DeclaredParts = {
    crds: declared.some(({ name }) => name === "crds"),
    groupCrds: declared.some(({ name }) => name === "groupCrds"),
    controller: declared.some(({ name }) => name === "controller"),
    addons: declared.flatMap(({ addon }) => addon ?? []),
  };
  return {
    ...plan,
    findings: [
      ...cloudFindings(request.cloud, detectCloud(observed)),
      ...choices.flatMap(({ findings }) => findings),
      ...stackFindings({ request, plan, observed }),
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
    return refused("AlreadyExists", `${title} exists and belongs to ${manager}`, toDo);
  }
  if (isOffered && (isOurs || mode !== "adopt")) return { declare: true, findings: [] };
  return isThere ? { declare: false, findings: [] } : refused("NotFound", `${title} does not exist`, hint);
}

function refused(code: ErrorCode, message: string, action: string): { declare: false; findings: Finding[] } {
  return { declare: false, findings: [refusal("snapshot-stack", code, message, action)] };
}
