import type { ResourceRef } from "../../../src/kube/resource-ref.ts";
import type { Cloud } from "./cloud-of.ts";
import type { Finding } from "./finding.ts";
import { howToGet } from "./stack-parts.ts";
import { controllerLease, type ControllerSeen, crdNames, type StackSeen } from "./stack-seen.ts";

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
export function controllerFindings(wish: Wish, plan: Plan, seen: StackSeen): Finding[] {
  return [...snapshotFindings(wish, plan, seen), ...(wish.cloud === "acs" ? sandboxFindings(seen) : [])];
}

/** Where the CRDs are not ACS' either, that is told by itself. */
function sandboxFindings({ crds, hasSandboxController }: StackSeen): Finding[] {
  const areThere = crds.some(({ name, isRamets }) => crdNames.sandboxes.includes(name) && !isRamets);
  if (hasSandboxController || !areThere) return [];
  const what = "no controller of sandboxes is seen, by its lease, and without one checkpoints wait for ever";
  const how =
    "See in the ACS console whether the component for agent sandboxes runs; ACS may run it where nobody sees it";
  return [{ code: "NotFound", what, how, weight: "tell" }];
}

function snapshotFindings(wish: Wish, plan: Plan, { controllers, leases, crds }: StackSeen): Finding[] {
  if (controllers.length > 0) return deploymentFindings(wish, plan, controllers);
  const [lease] = leases;
  if (lease !== undefined) return plan.controller ? [hidden(lease)] : [];
  const hasCrds = crds.some(({ name }) => crdNames.core.includes(name));
  const isExpected = wish.cloud !== "local" && hasCrds && !plan.controller && plan.addons.length === 0;
  return isExpected ? [none(wish.cloud)] : [];
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

function none(cloud: Cloud): Finding {
  const what =
    "no snapshot-controller is seen, by its Deployment or its lease, and without one snapshots wait for ever";
  const how =
    cloud === "generic" || cloud === "eks"
      ? "Have whoever brought the CRDs of snapshots bring the controller too"
      : `${howToGet[cloud]}; if it is on, the cloud runs it where nobody sees it`;
  return { code: "NotFound", what, how, weight: "tell" };
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
