import { otherOrEarlier } from "../owner.ts";
import { classFindings } from "./class-findings.ts";
import { cloudFindings, cloudOf } from "./cloud-of.ts";
import { controllerFindings } from "./controller-findings.ts";
import { crdFindings } from "./crd-findings.ts";
import type { Finding } from "./finding.ts";
import { leftoverFindings } from "./orphan-findings.ts";
import { driverFindings } from "./managed-drivers.ts";
import { partsOf, type Part } from "./stack-parts.ts";
import type { StackSeen } from "./stack-seen.ts";
import type { StackWish } from "./stack-request.ts";
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
export function planStack(wish: StackWish, seen: StackSeen): StackPlan {
  const parts = partsOf(wish, seen);
  const choices = parts.map((part) => ({ part, ...choose(wish, part) }));
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
      ...crdFindings(wish, plan, seen),
      ...upgradeFindings(wish, plan, seen),
      ...driverFindings(wish, seen),
      ...classFindings(wish, seen),
      ...controllerFindings(wish, plan, seen),
      ...leftoverFindings(wish, plan, seen.controllerObjects),
      ...seen.unread.map(unreadFinding),
    ],
  };
}

function choose({ mode, owners }: StackWish, part: Part): { declare: boolean; findings: Finding[] } {
  const { what, isThere, isOurs, manager, marked, isOffered, how, handOver } = part;
  if (isThere && !isOurs) {
    const mayBeOurs = mode === "auto" && marked !== undefined;
    if (!isOffered || (mode !== "install" && !mayBeOurs)) return { declare: false, findings: [] };
    const toDo =
      marked === undefined ? `Set mode to "auto" to leave it there, or ${handOver}` : otherOrEarlier(owners[0], marked);
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
