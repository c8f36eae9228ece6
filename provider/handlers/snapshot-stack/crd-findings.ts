import type { Finding } from "./finding.ts";
import { crdNames, type CrdSeen, type StackSeen } from "./stack-seen.ts";
import { bringsController, type StackWish } from "./stack-request.ts";

/** Whether CRDs that another looks after are all there, and in a version by which snapshots can be taken. */
export function crdFindings(
  wish: StackWish,
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
