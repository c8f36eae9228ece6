import { isLocalNode } from "../../api/names/system-names.ts";
import { pullReasons } from "../../api/schema/pod.ts";
import { firstOf, type Found, type Rule, withoutStop } from "./explanation.ts";
import {
  type ContainerFacts,
  type EventFacts,
  lastSeen,
  type PodFacts,
  type SandboxFacts,
  valueOf,
  secondsSince,
} from "./facts.ts";
import { unpulledImage } from "./image-rules.ts";
import { silentNode } from "./node-rules.ts";
import { probeFails } from "./probe-rules.ts";

export interface PodState extends Pick<SandboxFacts, "node" | "nodeLease" | "now"> {
  pod: PodFacts;
  events: readonly EventFacts[];
}

/** Explains why the Pod of a sandbox does not start or is not ready; undefined if the Pod is not the cause. */
export function explainPod(facts: SandboxFacts): Found | undefined {
  const pod = valueOf(facts.pod);
  const silent = silentNode(facts);
  if (pod === undefined) return silent;
  const { uid } = pod.metadata;
  const events = (valueOf(facts.events) ?? []).filter(({ regarding }) => regarding?.uid === uid);
  // Nothing else that the Pod reports is current if its node is silent.
  const found = silent ?? podRule({ ...facts, pod, events });
  return found && { ...found, foundIn: found.foundIn ?? `pod/${pod.metadata.name}` };
}

const podRule: Rule<PodState> = firstOf(
  ({ pod, now }) => unscheduled(pod, now),
  waitingContainer,
  failedMount,
  probeFails,
);

function waitingContainer(state: PodState): Found | undefined {
  const { status } = state.pod;
  for (const container of [...status.initContainerStatuses, ...status.containerStatuses]) {
    const reason = container.state?.waiting?.reason ?? undefined;
    if (reason === undefined || passing.has(reason)) continue;
    return waitingFor(state, container, { reason, message: container.state?.waiting?.message ?? "" });
  }
  return undefined;
}

const passing = new Set(["PodInitializing", "ContainerCreating"]);

function waitingFor(state: PodState, container: ContainerFacts, waiting: { reason: string; message: string }): Found {
  const { pod, node } = state;
  const { name } = pod.metadata;
  const { reason, message } = waiting;
  const since = pod.status.conditions.find(({ type }) => type === "ContainersReady")?.lastTransitionTime ?? undefined;
  if (pullReasons.has(reason)) {
    const isLocal = isLocalNode(valueOf(node)?.metadata.labels);
    return unpulledImage({ pod: name, image: imageOf(state, container, message), reason, message, since, isLocal });
  }
  if (reason === "CrashLoopBackOff") return crashing(pod, container, since);
  const known = missingObject(message) ?? disabledRestore(message);
  return {
    cause: `The container ${container.name} cannot be started: ${withoutStop(message === "" ? reason : message)}`,
    reason,
    since,
    retry: "The kubelet tries again within a few seconds",
    action: known ?? `Correct the container ${container.name} in the template`,
  };
}

/** The image that could not be pulled: the one that the message names, as a Pod also has an image volume. */
function imageOf({ pod }: PodState, container: ContainerFacts, message: string): string {
  const images = [
    ...pod.spec.volumes.flatMap(({ image }) => (image === undefined ? [] : [image.reference])),
    ...[...pod.spec.initContainers, ...pod.spec.containers].flatMap(({ image }) => image ?? []),
  ];
  return images.find((image) => message.includes(image)) ?? container.image ?? images[0] ?? "";
}

function crashing(pod: PodFacts, { name, lastState, restartCount }: ContainerFacts, since: string | undefined): Found {
  const { exitCode, reason, message } = lastState?.terminated ?? {};
  const how =
    reason === "OOMKilled" ? "it used more than its memory limit" : `it ended with exit code ${exitCode ?? "unknown"}`;
  const text = message == null || message.trim() === "" ? how : `${how}: ${message.trim()}`;
  return {
    cause: `The container ${name} ends again and again (${restartCount} restarts): ${text}`,
    reason: "CrashLoopBackOff",
    since,
    retry: "The kubelet starts it again after growing pauses of at most 5 minutes",
    action: `Read why it ended: kubectl logs ${pod.metadata.name} -n ${pod.metadata.namespace ?? ""} -c ${name} --previous`,
  };
}

/** containerd 2.2.7 and 2.3.4, after several CVEs (containerd#13913); 2.4 removes it. It should not be enabled again on shared nodes. */
function disabledRestore(message: string): string | undefined {
  if (!/checkpoint restore via CreateContainer is disabled by configuration/.test(message)) return undefined;
  return "Create the sandbox from a Checkpoint of Ramet, which needs nothing of containerd, or run such Pods in a node pool whose runtime restores checkpoint images (CRI-O)";
}

/** `secret "x" not found`, `couldn't find key k in Secret ns/x` (kubelet, v1.36). */
function missingObject(message: string): string | undefined {
  const [, kind = "", name = ""] =
    /(secret|configmap|persistentvolumeclaim)s? "([^"]+)" not found/i.exec(message) ?? [];
  if (name !== "") return `Create the ${kindNames[kind.toLowerCase()] ?? kind} ${name} in the namespace of the sandbox`;
  const [, key = "", holder = "", at = ""] = /find key (\S+) in (Secret|ConfigMap) (\S+)/.exec(message) ?? [];
  return key === "" ? undefined : `Add the key ${key} to the ${holder} ${at}`;
}

const kindNames: Readonly<Record<string, string>> = {
  secret: "Secret",
  configmap: "ConfigMap",
  persistentvolumeclaim: "PersistentVolumeClaim",
};

/** The status says only ContainerCreating while volumes or the Pod's network cannot be set up; the Events say why. */
function failedMount({ pod, events }: PodState): Found | undefined {
  const isCreating = pod.status.containerStatuses.some(({ state }) => passing.has(state?.waiting?.reason ?? ""));
  if (pod.status.phase !== "Pending" || !(isCreating || pod.status.containerStatuses.length === 0)) return undefined;
  const event = events.find(({ type, reason }) => type === "Warning" && setupFailures.has(reason ?? ""));
  if (event === undefined) return undefined;
  const note = withoutStop(event.note ?? "");
  return {
    cause: `The node cannot prepare the Pod: ${note}`,
    reason: event.reason ?? undefined,
    since: event.deprecatedFirstTimestamp ?? event.eventTime ?? lastSeen(event),
    retry: "The kubelet tries again after growing pauses of about 2 minutes at most",
    action: missingObject(note) ?? setupRemedy(event.reason ?? "", note),
  };
}

const setupFailures = new Set([
  "FailedMount",
  "FailedAttachVolume",
  "FailedMapVolume",
  "FailedCreatePodSandBox",
  "FailedCreatePodContainer",
  "NetworkNotReady",
]);

function setupRemedy(reason: string, note: string): string {
  if (/user namespace|idmap|hostUsers/i.test(note))
    return "Install Ramet with --cell-user-namespaces never, or use nodes whose kernel and runtime support user namespaces";
  if (/RuntimeHandler|runtime handler/.test(note))
    return "Remove runtimeClassName from the template, or install that runtime on the node";
  if (/image volume|ImageVolume|pull/i.test(note))
    return "Use nodes whose container runtime supports image volumes: containerd 2.1 or later";
  if (reason === "NetworkNotReady" || /cni|network/i.test(note)) return "Repair the node's network plug-in (CNI)";
  return "Correct the volume in the template, or the storage behind it";
}

/** Recognizes a Pod that no node takes. */
function unscheduled(pod: PodFacts, now: Date): Found | undefined {
  const { metadata, spec, status } = pod;
  if (spec.nodeName != null || status.phase === "Failed" || status.phase === "Succeeded") return undefined;
  const condition = status.conditions.find(({ type }) => type === "PodScheduled");
  if (condition?.status === "False") {
    const message = condition.message ?? "no reason is given";
    return {
      cause: `No node takes the Pod: ${withoutStop(message)}`,
      reason: condition.reason ?? "Unschedulable",
      since: condition.lastTransitionTime ?? undefined,
      retry: "The scheduler tries again when a node or another Pod changes",
      action: remedyOf(message),
    };
  }
  if (secondsSince(metadata.creationTimestamp, now) < patienceSeconds) return undefined;
  return {
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
