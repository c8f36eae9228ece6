import { clusterRef, namespacedRef, type ResourceRef } from "../../../src/kube/resource-ref.ts";
import type { Cloud } from "./detect-cloud.ts";
import type { Finding } from "../../../src/preflight/finding.ts";
import { installationHints } from "./stack-parts.ts";
import { controllerLease, type ObservedCluster } from "./observed-cluster.ts";
import { crdNames, type ObservedController } from "../../../src/preflight/snapshot-objects.ts";

interface ControllerRequest {
  cloud: Cloud;
  owners: readonly string[];
  groupSnapshots: boolean;
}

interface Plan {
  crds: boolean;
  controller: boolean;
  addons: readonly string[];
}

/** Checks that exactly one controller is visible and fits the CRDs. On ACS also checks the sandbox controller. */
export function controllerFindings(request: ControllerRequest, plan: Plan, observed: ObservedCluster): Finding[] {
  return [...snapshotFindings(request, plan, observed), ...(request.cloud === "acs" ? sandboxFindings(observed) : [])];
}

/** If the CRDs of ACS are missing too, another finding reports that. */
function sandboxFindings({ crds, hasSandboxController }: ObservedCluster): Finding[] {
  const areThere = crds.some(({ name, isRamets }) => crdNames.sandboxes.includes(name) && !isRamets);
  if (hasSandboxController || !areThere) return [];
  const message = "no sandbox controller renews its lease; without one, checkpoints wait forever";
  const action =
    "Check in the ACS console that the component for agent sandboxes runs; ACS may run it outside the cluster";
  return [{ check: "sandbox-controller", code: "NotFound", message, action, level: "warning" }];
}

function snapshotFindings(
  request: ControllerRequest,
  plan: Plan,
  { controllers, leases, crds }: ObservedCluster,
): Finding[] {
  if (controllers.length > 0) return deploymentFindings(request, plan, controllers);
  const [lease] = leases;
  if (lease !== undefined) return plan.controller ? [hidden(lease)] : [];
  const hasCrds = crds.some(({ name }) => crdNames.core.includes(name));
  const isExpected = request.cloud !== "local" && hasCrds && !plan.controller && plan.addons.length === 0;
  return isExpected ? [none(request.cloud)] : [];
}

function deploymentFindings(
  { owners, groupSnapshots }: ControllerRequest,
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
  const message = `no Pod of the Deployment ${namespace}/${name} is available, so snapshots wait`;
  const action = `Find the cause with: kubectl describe pods --namespace ${namespace} --selector app.kubernetes.io/name=snapshot-controller`;
  return { check: "snapshot-controller", code: "Unavailable", message, action, level: "warning" };
}

function second({ namespace, name, manager }: ObservedController): Finding {
  const message = `the Deployment ${namespace}/${name} of ${manager} is a second snapshot-controller; two controllers conflict`;
  return { check: "snapshot-controller", code: "Conflict", message, action: "Remove one of the two", level: "warning" };
}

/**
 * Before v8.2 group snapshots had the version v1alpha1, which the CRDs of v8.6 no longer have. Otherwise an old
 * controller works with new CRDs.
 */
function older({ namespace, name, manager, image }: ObservedController, groupSnapshots: boolean): Finding[] {
  const [, major = "", minor = ""] = /:v(\d+)\.(\d+)/.exec(image) ?? [];
  const isOld = major !== "" && Number(major) < 8;
  const isBeforeGroups = isOld || (major === "8" && Number(minor) < 2);
  if (!isOld && !(groupSnapshots && isBeforeGroups)) return [];
  const message = `the Deployment ${namespace}/${name} of ${manager} runs ${image}, which is older than the CRDs of v8.6`;
  return [
    {
      check: "snapshot-controller",
      code: "NeedNotMet",
      message,
      action: "Upgrade it to v8 with that manager",
      level: groupSnapshots ? "error" : "warning",
    },
  ];
}

/** Two controllers conflict. A controller that was just removed looks the same. */
function hidden({ namespace, holder }: { namespace: string; holder: string }): Finding {
  const message = `a controller without a visible Deployment holds the lease ${namespace}/${controllerLease} (${holder})`;
  const action = 'If it was just removed, try again in a minute; otherwise set mode to "adopt"';
  return { check: "snapshot-controller", code: "AlreadyExists", message, action, level: "error" };
}

function none(cloud: Cloud): Finding {
  const message =
    "no snapshot-controller is visible (neither a Deployment nor a lease); without one, snapshots wait forever";
  const action =
    cloud === "generic" || cloud === "eks"
      ? "Install the controller with the manager that installed the snapshot CRDs"
      : `${installationHints[cloud]}; if it is enabled, the cloud runs it outside the cluster`;
  return { check: "snapshot-controller", code: "NotFound", message, action, level: "warning" };
}

/** The names of a snapshot-controller's objects in upstream's manifests, charts and add-ons. */
export const controllerNames = {
  /** Deployment, service account, Pods and PodDisruptionBudget. */
  controller: "snapshot-controller",
  clusterRole: "snapshot-controller-runner",
  clusterRoleBinding: "snapshot-controller-role",
  /** The Role for the lease and its binding. */
  lease: "snapshot-controller-leaderelection",
} as const;

/** The objects that a stack creates for a controller, without CRDs and classes. */
export function controllerObjects(namespace: string): { ref: ResourceRef; namespace?: string; name: string }[] {
  const { controller, clusterRole, clusterRoleBinding, lease } = controllerNames;
  return [
    { ref: namespacedRef("apps/v1", "Deployment"), namespace, name: controller },
    { ref: namespacedRef("v1", "ServiceAccount"), namespace, name: controller },
    { ref: namespacedRef("policy/v1", "PodDisruptionBudget"), namespace, name: controller },
    { ref: namespacedRef(rbac, "Role"), namespace, name: lease },
    { ref: namespacedRef(rbac, "RoleBinding"), namespace, name: lease },
    { ref: clusterRef(rbac, "ClusterRole"), name: clusterRole },
    { ref: clusterRef(rbac, "ClusterRoleBinding"), name: clusterRoleBinding },
  ];
}

const rbac = "rbac.authorization.k8s.io/v1";
