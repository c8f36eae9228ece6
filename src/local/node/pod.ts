import { z } from "zod";
import { labels } from "../../api/names/labels.ts";
import { Pod } from "../../api/schema/pod.ts";

/** A Pod as the node reads it. */
export const NodePod = Pod.extend({ apiVersion: z.string().optional(), kind: z.string().optional() });
export type NodePod = z.infer<typeof NodePod>;
export type NodePodStatus = NonNullable<NodePod["status"]>;

/** Whether the node may take the Pod to itself: it was made for a cell and nobody has given it a node. */
export function awaitsNode(pod: NodePod): boolean {
  return (
    pod.spec.nodeName === undefined &&
    pod.metadata.deletionTimestamp === undefined &&
    pod.metadata.labels?.[labels.cell] === "true"
  );
}

export function hasEnded(pod: NodePod): boolean {
  return pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
}

/** How long a Pod's processes may take to end after SIGTERM. */
export function graceMilliseconds(pod: NodePod | undefined): number {
  const seconds = pod?.metadata.deletionGracePeriodSeconds ?? pod?.spec.terminationGracePeriodSeconds ?? 30;
  return seconds * 1000;
}
