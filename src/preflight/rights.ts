import { crdNames } from "../api/kinds/crd.ts";
import type { Right } from "./cluster-facts.ts";

const admission = "admissionregistration.k8s.io";
const rbac = "rbac.authorization.k8s.io";

/** The rights to write an installation. */
const installing: readonly Right[] = [
  ["apiextensions.k8s.io", "customresourcedefinitions", false],
  [rbac, "clusterroles", false],
  [rbac, "clusterrolebindings", false],
  [admission, "validatingadmissionpolicies", false],
  ["apps", "deployments", true],
].map(([group, resource, namespaced]) => ({
  verb: "create",
  group: group as string,
  resource: resource as string,
  namespaced: namespaced as boolean,
  purpose: "install Ramet",
}));

/** The rights to use Ramet's kinds, and to read for explanations. */
function using(): Right[] {
  const kinds = crdNames().map(({ group, plural }): Right => {
    return { verb: "create", group, resource: plural, namespaced: true, purpose: "use Ramet" };
  });
  const reads = (["pods", "events"] as const).map((resource): Right => ({
    verb: "list",
    group: resource === "events" ? "events.k8s.io" : "",
    resource,
    namespaced: true,
    purpose: "explain states",
  }));
  return [...kinds, ...reads];
}

/** The rights that are reviewed. */
export function reviewedRights(): readonly Right[] {
  return [...installing, ...using()];
}
