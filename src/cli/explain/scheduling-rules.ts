import type { Explanation } from "./explanation.ts";
import { withoutStop } from "./explanation.ts";
import type { PodFacts } from "./facts.ts";
import { secondsSince } from "./time.ts";

/** Recognizes a Pod that no node takes. */
export function unscheduled(pod: PodFacts, now: Date): Explanation | undefined {
  const { metadata, spec, status } = pod;
  if (spec.nodeName != null || status.phase === "Failed" || status.phase === "Succeeded") return undefined;
  const condition = status.conditions.find(({ type }) => type === "PodScheduled");
  if (condition?.status === "False") {
    const message = condition.message ?? "no reason is given";
    return {
      state: "stuck",
      cause: `No node takes the Pod: ${withoutStop(message)}`,
      reason: condition.reason ?? "Unschedulable",
      since: condition.lastTransitionTime ?? undefined,
      retry: "The scheduler tries again when a node or another Pod changes",
      action: remedyOf(message),
    };
  }
  if (secondsSince(metadata.creationTimestamp, now) < patienceSeconds) return undefined;
  return {
    state: "stuck",
    cause: "No scheduler has processed the Pod",
    reason: "SchedulerSilent",
    since: metadata.creationTimestamp,
    retry: "The scheduler binds it as soon as it runs",
    action: "Start the cluster's scheduler (kube-scheduler), or the local cluster's node: ramet local up",
  };
}

const patienceSeconds = 10;

function remedyOf(message: string): string {
  const known = remedies.find(({ pattern }) => pattern.test(message));
  return known?.action ?? "Change the template or add a node, so that one node meets all of this";
}

// The scheduler's words (Kubernetes v1.36, pkg/scheduler/framework/plugins). Those that no new node heals come first.
const remedies: readonly { pattern: RegExp; action: string }[] = [
  {
    pattern: /unbound immediate PersistentVolumeClaims|persistentvolumeclaim "[^"]+" not found/,
    action: "Provide a PersistentVolume or a StorageClass for the claim: kubectl describe pvc shows what it asks for",
  },
  { pattern: /volume node affinity conflict/, action: "Add a node in the zone of the sandbox's volume" },
  {
    pattern: /node affinity\/selector|node selector/,
    action: "Label a node as the template's nodeSelector and affinity require, or change them",
  },
  {
    pattern: /Insufficient|Too many pods/,
    action: "Lower the requests in the template, delete sandboxes, or add a node",
  },
  { pattern: /unreachable|not-ready|not ready/, action: "Repair the nodes that are not Ready: kubectl get nodes" },
  { pattern: /untolerated taint/, action: "Add a toleration to the template, or a node without the taint" },
  { pattern: /were unschedulable/, action: "Allow Pods on a node again: kubectl uncordon NODE" },
  { pattern: /no nodes available/, action: "Add a node to the cluster" },
];
