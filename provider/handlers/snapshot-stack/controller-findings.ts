import type { ResourceRef } from "../../../src/kube/resource-ref.ts";
import type { Cloud } from "./detect-cloud.ts";
import type { Finding } from "./finding.ts";
import { installationHints } from "./stack-parts.ts";
import { controllerLease, type ObservedController, crdNames, type ObservedCluster } from "./observed-cluster.ts";

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

/** Whether exactly one controller works, as far as that can be seen, and whether it goes with the CRDs; on ACS that of sandboxes too. */
export function controllerFindings(request: Wish, plan: Plan, observed: ObservedCluster): Finding[] {
  return [...snapshotFindings(request, plan, observed), ...(request.cloud === "acs" ? sandboxFindings(observed) : [])];
}

/** Where the CRDs are not ACS' either, that is told by itself. */
function sandboxFindings({ crds, hasSandboxController }: ObservedCluster): Finding[] {
  const areThere = crds.some(({ name, isRamets }) => crdNames.sandboxes.includes(name) && !isRamets);
  if (hasSandboxController || !areThere) return [];
  const problem = "no controller of sandboxes is seen, by its lease, and without one checkpoints wait for ever";
  const hint =
    "See in the ACS console whether the component for agent sandboxes runs; ACS may run it where nobody sees it";
  return [{ code: "NotFound", problem, hint, severity: "warning" }];
}

function snapshotFindings(request: Wish, plan: Plan, { controllers, leases, crds }: ObservedCluster): Finding[] {
  if (controllers.length > 0) return deploymentFindings(request, plan, controllers);
  const [lease] = leases;
  if (lease !== undefined) return plan.controller ? [hidden(lease)] : [];
  const hasCrds = crds.some(({ name }) => crdNames.core.includes(name));
  const isExpected = request.cloud !== "local" && hasCrds && !plan.controller && plan.addons.length === 0;
  return isExpected ? [none(request.cloud)] : [];
}

function deploymentFindings(
  { owners, groupSnapshots }: Wish,
  plan: Plan,
  controllers: readonly ObservedController[],
): Finding[] {
  const others = controllers.filter(({ declaredBy = "" }) => !owners.includes(declaredBy));
  return [
    ...(controllers.some(({ isAvailable }) => isAvailable) ? [] : controllers.slice(0, 1).map(idle)),
    ...(plan.controller ? others.map(second) : []),
    ...(plan.crds || groupSnapshots ? others.flatMap((observed) => older(observed, groupSnapshots)) : []),
  ];
}

function idle({ namespace, name }: ObservedController): Finding {
  const problem = `no Pod of the Deployment ${namespace}/${name} is available, and snapshots wait for one`;
  const hint = `See why: kubectl describe pods --namespace ${namespace} --selector app.kubernetes.io/name=snapshot-controller`;
  return { code: "Unavailable", problem, hint, severity: "warning" };
}

function second({ namespace, name, manager }: ObservedController): Finding {
  const problem = `the Deployment ${namespace}/${name} of ${manager} is a second snapshot-controller, and two work against each other`;
  return { code: "Conflict", problem, hint: "Remove one of the two", severity: "warning" };
}

/** Before v8.2 groups were of the version v1alpha1, which the CRDs of v8.6 have no more; else an old one works beside new CRDs. */
function older({ namespace, name, manager, image }: ObservedController, groupSnapshots: boolean): Finding[] {
  const [, major = "", minor = ""] = /:v(\d+)\.(\d+)/.exec(image) ?? [];
  const isOld = major !== "" && Number(major) < 8;
  const isBeforeGroups = isOld || (major === "8" && Number(minor) < 2);
  if (!isOld && !(groupSnapshots && isBeforeGroups)) return [];
  const problem = `the Deployment ${namespace}/${name} of ${manager} runs ${image}, older than the CRDs of v8.6 beside it`;
  return [
    {
      code: "NeedNotMet",
      problem,
      hint: "Have that manager bring it to v8",
      severity: groupSnapshots ? "error" : "warning",
    },
  ];
}

/** Two would work against each other, and one that was removed a moment ago looks the same. */
function hidden({ namespace, holder }: { namespace: string; holder: string }): Finding {
  const problem = `a controller that cannot be seen holds the lease ${namespace}/${controllerLease} (${holder})`;
  const hint = 'If it was removed just now, repeat in a minute; else set mode to "adopt"';
  return { code: "AlreadyExists", problem, hint, severity: "error" };
}

function none(cloud: Cloud): Finding {
  const problem =
    "no snapshot-controller is seen, by its Deployment or its lease, and without one snapshots wait for ever";
  const hint =
    cloud === "generic" || cloud === "eks"
      ? "Have whoever brought the CRDs of snapshots bring the controller too"
      : `${installationHints[cloud]}; if it is on, the cloud runs it where nobody sees it`;
  return { code: "NotFound", problem, hint, severity: "warning" };
}

/** The names of what a snapshot-controller is installed with: upstream's, which its charts and add-ons have as well. */
export const controllerNames = {
  /** Of the Deployment, its account, its Pods and their disruption budget. */
  controller: "snapshot-controller",
  clusterRole: "snapshot-controller-runner",
  clusterRoleBinding: "snapshot-controller-role",
  /** Of the Role for the lease, and its binding. */
  lease: "snapshot-controller-leaderelection",
} as const;

/** What a stack would make for a controller in a namespace, beside CRDs and classes. */
export function controllerObjects(namespace: string): { ref: ResourceRef; namespace?: string; name: string }[] {
  const { controller, clusterRole, clusterRoleBinding, lease } = controllerNames;
  return [
    { ref: ref("apps", "Deployment"), namespace, name: controller },
    { ref: ref("", "ServiceAccount"), namespace, name: controller },
    { ref: ref("policy", "PodDisruptionBudget"), namespace, name: controller },
    { ref: ref(rbac, "Role"), namespace, name: lease },
    { ref: ref(rbac, "RoleBinding"), namespace, name: lease },
    { ref: { ...ref(rbac, "ClusterRole"), namespaced: false }, name: clusterRole },
    { ref: { ...ref(rbac, "ClusterRoleBinding"), namespaced: false }, name: clusterRoleBinding },
  ];
}

const rbac = "rbac.authorization.k8s.io";

function ref(group: string, kind: string): ResourceRef {
  return { group, version: "v1", plural: `${kind.toLowerCase()}s`, kind, namespaced: true };
}
