import type { Cloud } from "./cloud-of.ts";
import type { Finding } from "./finding.ts";
import { controllerLease, crdNames, type ControllerSeen, type StackSeen } from "./stack-seen.ts";

/** Whether exactly one controller works, as far as that can be seen. */
export function controllerFindings(
  { cloud, owners }: { cloud: Cloud; owners: readonly string[] },
  plan: { controller: boolean; addons: readonly string[] },
  { controllers, leases, crds }: Pick<StackSeen, "controllers" | "leases" | "crds">,
): Finding[] {
  const [first] = controllers;
  if (first !== undefined) {
    const others = controllers.filter(({ declaredBy = "" }) => !owners.includes(declaredBy));
    return [
      ...(controllers.some(({ isAvailable }) => isAvailable) ? [] : [idle(`${first.namespace}/${first.name}`)]),
      ...(plan.controller ? others.map(second) : []),
    ];
  }
  const [lease] = leases;
  if (lease !== undefined) return plan.controller ? [hidden(lease)] : [];
  // A managed cluster's may be where nobody sees it.
  const isExpected = cloud === "generic" || cloud === "eks";
  const hasCrds = crds.some(({ name }) => crdNames.core.includes(name));
  return isExpected && hasCrds && !plan.controller && plan.addons.length === 0 ? [none] : [];
}

function idle(place: string): Finding {
  const what = `no Pod of the Deployment ${place} is available, and snapshots wait for one`;
  const [namespace = ""] = place.split("/");
  const how = `See why: kubectl describe pods --namespace ${namespace} --selector app.kubernetes.io/name=snapshot-controller`;
  return { code: "Unavailable", what, how, weight: "tell" };
}

function second({ namespace, name, manager }: ControllerSeen): Finding {
  const what = `the Deployment ${namespace}/${name} of ${manager} is a second snapshot-controller, and two work against each other`;
  return { code: "Conflict", what, how: "Remove one of the two", weight: "tell" };
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
