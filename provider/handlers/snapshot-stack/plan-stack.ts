import { defined } from "../../../src/base/defined.ts";
import type { ErrorCode } from "../../../src/base/error-codes.ts";
import { RametError } from "../../../src/base/errors.ts";
import { type Finding, refusal } from "../../../src/preflight/finding.ts";
import { ownerConflictHint } from "../owner.ts";
import { cloudFindings, detectCloud } from "./detect-cloud.ts";
import type { ObservedCluster } from "./observed-cluster.ts";
import { stackFindings } from "./stack-findings.ts";
import { type DeclaredParts, type Part, partsOf, type StackRequest } from "./stack-parts.ts";

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
