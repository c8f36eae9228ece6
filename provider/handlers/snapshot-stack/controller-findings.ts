import type { Cloud } from "./cloud-of.ts";
import type { Finding } from "./finding.ts";
import { controllerLease, crdNames, type ControllerSeen, type StackSeen } from "./stack-seen.ts";

interface Wish {
  cloud: Cloud;
  owners: readonly string[];
  groupSnapshots: boolean;
}

interface Plan {
  crds: boolean;
  controller: boolean;
  addons: readonly string[];
}

/** Whether exactly one controller works, as far as that can be seen, and whether it goes with the CRDs. */
export function controllerFindings(
  wish: Wish,
  plan: Plan,
  { controllers, leases, crds }: Pick<StackSeen, "controllers" | "leases" | "crds">,
): Finding[] {
  if (controllers.length > 0) return deploymentFindings(wish, plan, controllers);
  const [lease] = leases;
  if (lease !== undefined) return plan.controller ? [hidden(lease)] : [];
  // A managed cluster's may be where nobody sees it.
  const isExpected = wish.cloud === "generic" || wish.cloud === "eks";
  const hasCrds = crds.some(({ name }) => crdNames.core.includes(name));
  return isExpected && hasCrds && !plan.controller && plan.addons.length === 0 ? [none] : [];
}

function deploymentFindings(
  { owners, groupSnapshots }: Wish,
  plan: Plan,
  controllers: readonly ControllerSeen[],
): Finding[] {
  const others = controllers.filter(({ declaredBy = "" }) => !owners.includes(declaredBy));
  return [
    ...(controllers.some(({ isAvailable }) => isAvailable) ? [] : controllers.slice(0, 1).map(idle)),
    ...(plan.controller ? others.map(second) : []),
    ...(plan.crds || groupSnapshots ? others.flatMap((seen) => older(seen, groupSnapshots)) : []),
  ];
}

function idle({ namespace, name }: ControllerSeen): Finding {
  const what = `no Pod of the Deployment ${namespace}/${name} is available, and snapshots wait for one`;
  const how = `See why: kubectl describe pods --namespace ${namespace} --selector app.kubernetes.io/name=snapshot-controller`;
  return { code: "Unavailable", what, how, weight: "tell" };
}

function second({ namespace, name, manager }: ControllerSeen): Finding {
  const what = `the Deployment ${namespace}/${name} of ${manager} is a second snapshot-controller, and two work against each other`;
  return { code: "Conflict", what, how: "Remove one of the two", weight: "tell" };
}

/** Before v8.2 groups were of the version v1alpha1, which the CRDs of v8.6 have no more; else an old one works beside new CRDs. */
function older({ namespace, name, manager, image }: ControllerSeen, groupSnapshots: boolean): Finding[] {
  const [, major = "", minor = ""] = /:v(\d+)\.(\d+)/.exec(image) ?? [];
  const isOld = major !== "" && Number(major) < 8;
  const isBeforeGroups = isOld || (major === "8" && Number(minor) < 2);
  if (!isOld && !(groupSnapshots && isBeforeGroups)) return [];
  const what = `the Deployment ${namespace}/${name} of ${manager} runs ${image}, older than the CRDs of v8.6 beside it`;
  return [
    { code: "NeedNotMet", what, how: "Have that manager bring it to v8", weight: groupSnapshots ? "refuse" : "tell" },
  ];
}

/** Two would work against each other, and one that was removed a moment ago looks the same. */
function hidden({ namespace, holder }: { namespace: string; holder: string }): Finding {
  const what = `a controller that cannot be seen holds the lease ${namespace}/${controllerLease} (${holder})`;
  const how = 'If it was removed just now, repeat in a minute; else set mode to "adopt"';
  return { code: "AlreadyExists", what, how, weight: "refuse" };
}

const none: Finding = {
  code: "NotFound",
  what: "no snapshot-controller is seen, so snapshots that are asked for would wait for ever",
  how: "Have whoever brought the CRDs of snapshots bring the controller too",
  weight: "tell",
};
