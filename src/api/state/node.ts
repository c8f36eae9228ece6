import * as z from "zod";
import type { DisruptionCause } from "../kinds/sandbox.ts";
import { annotations } from "../names/labels.ts";

export const Taint = z.object({ key: z.string(), value: z.string().default(""), effect: z.string() });
export type Taint = z.infer<typeof Taint>;

/** The fields of a Pod's toleration (Kubernetes API v1.36). */
export const Toleration = z.object({
  key: z.string().default(""),
  operator: z.string().default("Equal"),
  value: z.string().default(""),
  effect: z.string().default(""),
  tolerationSeconds: z.number().nullish(),
});
export type Toleration = z.infer<typeof Toleration>;

/** What a node says about its future. */
export interface MarkedNode {
  metadata: { deletionTimestamp?: string | undefined; annotations?: Record<string, string> | undefined };
  spec: { unschedulable?: boolean | undefined; taints?: readonly Taint[] | undefined };
  status?: { conditions?: readonly NodeCondition[] | undefined };
}

interface NodeCondition {
  type: string;
  status: string;
  message?: string | null | undefined;
}

/** `mark`: for people. */
interface Mark {
  cause: DisruptionCause;
  mark: string;
}

/** `urgent`: see `isUrgent`. */
export type Leaving = { leaving: false } | ({ leaving: true; urgent: boolean } & Mark);

const stays: Leaving = { leaving: false };

/** Whether seconds count, as for a spot instance. */
export function isUrgent(cause: DisruptionCause | (string & {})): boolean {
  return cause === "NodeShutdown" || cause === "NodeReclaimed" || cause === "NodeTaint";
}

function leaves(cause: DisruptionCause, mark: string): Leaving {
  return { leaving: true, cause, mark, urgent: isUrgent(cause) };
}

/**
 * Whether a node is about to end its Pods: it is cordoned, deleted, or has the taint of an autoscaler or a provider. A Pod stays that
 * tolerates the mark. Nodes that do not respond are not leaving: nothing can be captured there.
 *
 * @param tolerations those of a Pod
 */
export function leavingNode({ metadata, spec, status }: MarkedNode, tolerations: readonly Toleration[] = []): Leaving {
  if (isShuttingDown(status)) return leaves("NodeShutdown", "it is shutting down");
  const { taints = [] } = spec;
  if (metadata.annotations?.[annotations.moveSandboxes] === "false") return stays;
  const own = taints.filter((taint) => !isTolerated(taint, tolerations));
  if (own.some(({ key }) => lost.has(key))) return stays;
  const marks = own.flatMap((taint) => markOf(taint) ?? []);
  const first = marks.find(({ cause }) => isUrgent(cause)) ?? marks[0];
  if (first !== undefined) return leaves(first.cause, first.mark);
  if (metadata.deletionTimestamp !== undefined) return leaves("NodeLeaving", "it is being deleted");
  const isCordoned = spec.unschedulable === true && !isTolerated(cordon, tolerations);
  return isCordoned ? leaves("NodeCordoned", "it is cordoned") : stays;
}

/**
 * Whether the kubelet ends its Pods for a shutdown of the machine, which waits for them. Only the message says so (Kubernetes v1.36,
 * pkg/kubelet/nodeshutdown).
 */
function isShuttingDown({ conditions = [] }: MarkedNode["status"] = {}): boolean {
  const ready = conditions.find(({ type }) => type === "Ready");
  return ready?.status === "False" && (ready.message ?? "").includes("node is shutting down");
}

function markOf({ key, effect }: Taint): Mark | undefined {
  const cause = known.get(key) ?? (effect === "NoExecute" ? "NodeTaint" : undefined);
  return cause === undefined ? undefined : { cause, mark: `it has the taint ${key}` };
}

/** The taints of nodes that leave. A candidate of the cluster autoscaler (`DeletionCandidateOfClusterAutoscaler`) may stay. */
const known: ReadonlyMap<string, DisruptionCause> = new Map([
  // kubernetes/autoscaler, cluster-autoscaler/utils/taints/taints.go.
  ["ToBeDeletedByClusterAutoscaler", "NodeLeaving"],
  // kubernetes-sigs/karpenter, pkg/apis/v1/taints.go; the second is that of v1beta1.
  ["karpenter.sh/disrupted", "NodeLeaving"],
  ["karpenter.sh/disruption", "NodeLeaving"],
  // aws/aws-node-termination-handler, pkg/node/node.go. A spot instance has two minutes.
  ["aws-node-termination-handler/spot-itn", "NodeReclaimed"],
  ["aws-node-termination-handler/asg-lifecycle-termination", "NodeLeaving"],
  ["aws-node-termination-handler/rebalance-recommendation", "NodeLeaving"],
  ["aws-node-termination-handler/scheduled-maintenance", "NodeLeaving"],
  // GoogleCloudPlatform/k8s-node-termination-handler, main.go; GKE sets it for Spot VMs and host maintenance.
  ["cloud.google.com/impending-node-termination", "NodeReclaimed"],
  // Azure/AKS, "Node auto-drain"; the second is its earlier name. A spot VM has 30 seconds.
  ["remediator.kubernetes.azure.com/unschedulable", "NodeReclaimed"],
  ["remediator.aks.microsoft.com/unschedulable", "NodeReclaimed"],
]);

/** Their cells do not respond (Kubernetes v1.36, staging/src/k8s.io/api/core/v1/well_known_taints.go, and cloud-provider). */
const lost: ReadonlySet<string> = new Set([
  "node.kubernetes.io/not-ready",
  "node.kubernetes.io/unreachable",
  "node.kubernetes.io/out-of-service",
  "node.cloudprovider.kubernetes.io/shutdown",
]);

/** As the scheduler sees `spec.unschedulable`. */
const cordon: Taint = { key: "node.kubernetes.io/unschedulable", value: "", effect: "NoSchedule" };

/** Whether the node's Ready condition is True. */
export function isNodeReady({ status }: { status: Pick<NonNullable<MarkedNode["status"]>, "conditions"> }): boolean {
  return status.conditions?.some((one) => one.type === "Ready" && one.status === "True") ?? false;
}

/** Whether new Pods with these tolerations are to be scheduled to the node, apart from its size and its labels. */
export function acceptsPods(node: MarkedNode, tolerations: readonly Toleration[]): boolean {
  return (
    !leavingNode(node, tolerations).leaving &&
    node.metadata.deletionTimestamp === undefined &&
    !refusesPods(node, tolerations)
  );
}

/** Whether the scheduler itself keeps these Pods away. It may use a leaving node whose taint only discourages, or that they tolerate. */
export function refusesPods({ spec }: Pick<MarkedNode, "spec">, tolerations: readonly Toleration[]): boolean {
  const refusing = (spec.taints ?? []).filter(({ effect }) => effect !== "PreferNoSchedule");
  const taints = spec.unschedulable === true ? [...refusing, cordon] : refusing;
  return !taints.every((taint) => tolerates(taint, tolerations));
}

/** For ever: a Pod that tolerates a taint for some seconds is ended after them. */
function isTolerated(taint: Taint, tolerations: readonly Toleration[]): boolean {
  return tolerates(
    taint,
    tolerations.filter(({ tolerationSeconds }) => typeof tolerationSeconds !== "number"),
  );
}

/** As Kubernetes v1.36 does, k8s.io/component-helpers/scheduling/corev1. */
function tolerates({ key, value, effect }: Taint, tolerations: readonly Toleration[]): boolean {
  return tolerations.some((one) => {
    if (one.effect !== "" && one.effect !== effect) return false;
    if (one.key === "") return one.operator === "Exists";
    return one.key === key && (one.operator === "Exists" || one.value === value);
  });
}
