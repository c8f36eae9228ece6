import { isLocalNode } from "../../api/names/system-names.ts";
import type { Found } from "./explanation.ts";
import { type NodeFacts, type SandboxFacts, valueOf, secondsSince } from "./facts.ts";

/** Recognizes a node that does not report, so that nothing starts, stops or is probed there. */
export function silentNode(facts: Pick<SandboxFacts, "pod" | "node" | "nodeLease" | "now">): Found | undefined {
  const nodeName = valueOf(facts.pod)?.spec.nodeName;
  if (nodeName == null || "unknown" in facts.node) return undefined;
  const { value: node } = facts.node;
  const found = node === undefined ? goneNode(nodeName) : (notReady(node) ?? silentLease(node, facts));
  return found && { ...found, foundIn: `node/${nodeName}` };
}

function goneNode(name: string): Found {
  return {
    cause: `The Pod is bound to the node ${name}, which no longer exists`,
    reason: "NodeNotFound",
    retry: "None: Kubernetes does not move a Pod to another node",
    action: "Delete the sandbox, and create it again from its template or a checkpoint",
  };
}

function notReady(node: NodeFacts): Found | undefined {
  const { name } = node.metadata;
  const ready = node.status.conditions.find(({ type }) => type === "Ready");
  if (ready === undefined || ready.status === "True") return undefined;
  const why = ready.message ?? ready.reason ?? "no reason is given";
  return ready.status === "Unknown"
    ? silent(node, ready.lastTransitionTime ?? undefined, `The node ${name} is silent: ${why}`)
    : {
        cause: `The node ${name} is not Ready: ${why}`,
        reason: ready.reason ?? "NodeNotReady",
        since: ready.lastTransitionTime ?? undefined,
        retry: "The kubelet continues when the node is Ready",
        action: `Correct what the node reports: kubectl describe node ${name}`,
      };
}

/** The Lease shows a dead kubelet earlier than the condition, and also without a controller that sets the condition. */
function silentLease(node: NodeFacts, { nodeLease, now }: Pick<SandboxFacts, "nodeLease" | "now">): Found | undefined {
  const { renewTime, leaseDurationSeconds } = valueOf(nodeLease)?.spec ?? {};
  const seconds = secondsSince(renewTime ?? undefined, now);
  if (renewTime == null || seconds <= (leaseDurationSeconds ?? 40)) return undefined;
  return silent(
    node,
    renewTime,
    `The kubelet of the node ${node.metadata.name} has not reported for ${Math.round(seconds)} s`,
  );
}

function silent(node: NodeFacts, since: string | undefined, cause: string): Found {
  const { name, labels } = node.metadata;
  return {
    cause,
    reason: "NodeSilent",
    since,
    retry: "The kubelet continues when it is back. Until then nothing on the node starts, stops or is probed",
    action: isLocalNode(labels)
      ? "Start the local cluster's node: ramet local up"
      : `Start the kubelet of the node ${name}, or delete the Node if the machine is gone`,
  };
}
