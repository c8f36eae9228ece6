import { isLocalNode } from "../../api/names/system-names.ts";
import { missingEntrypoint, startsNothing } from "../../api/pod/resolved-image.ts";
import { tcpProbeOf } from "../../api/pod/tcp-probe.ts";
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
  type ProbeFacts,
} from "./facts.ts";
import {
  imageIn,
  remedyOfCellPull,
  remedyOfContainer,
  remedyOfPull,
  remedyOfScheduler,
  remedyOfSetup,
  type ProbeFailure,
  probeFailureIn,
} from "./kubernetes-texts.ts";
import { silentNode } from "./node-rules.ts";

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

interface Waiting {
  reason: string;
  message: string;
}

function waitingFor(state: PodState, container: ContainerFacts, { reason, message }: Waiting): Found {
  const { pod } = state;
  const since = pod.status.conditions.find(({ type }) => type === "ContainersReady")?.lastTransitionTime ?? undefined;
  if (pullReasons.has(reason)) return { ...unpulled(state, container, { reason, message }), since };
  if (reason === "CrashLoopBackOff") return crashing(pod, container, since);
  return {
    cause: `The container ${container.name} cannot be started: ${withoutStop(message === "" ? reason : message)}`,
    reason,
    since,
    retry: "The kubelet tries again within a few seconds",
    action: remedyOfContainer(message, `Correct the container ${container.name} in the template`),
  };
}

/** The image that could not be pulled is the one that the message names, as a Pod also has an image volume. */
function unpulled({ pod, node }: PodState, container: ContainerFacts, { reason, message }: Waiting): Found {
  const mounted = pod.spec.volumes.flatMap(({ image }) => (image === undefined ? [] : [image.reference]));
  const images = [
    ...mounted,
    ...[...pod.spec.initContainers, ...pod.spec.containers].flatMap(({ image }) => image ?? []),
  ];
  const image = imageIn(message, images) ?? container.image ?? images[0] ?? "";
  const isFinal = reason === "ErrImageNeverPull" || reason === "InvalidImageName";
  const again = isLocalNode(valueOf(node)?.metadata.labels)
    ? "The local node tries again every 2 seconds"
    : "The kubelet tries again after growing pauses of at most 5 minutes";
  const why = `cannot be pulled: ${message === "" ? reason : message}`;
  if (image === pod.spec.containers[0]?.image && !mounted.includes(image)) {
    const cause = `The cell image ${image}, which belongs to the installation of Ramet, ${why}`;
    return { cause, reason, retry: again, action: remedyOfCellPull(message) };
  }
  return {
    cause: `The image ${image} ${why}`,
    reason,
    retry: isFinal ? "None until the template changes" : again,
    action: remedyOfPull(message),
  };
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
    action: remedyOfSetup(`${event.reason ?? ""}: ${note}`),
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
      action: remedyOfScheduler(message),
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

/** Recognizes a running Pod that its probes do not let become ready. */
export function probeFails({ pod, events, node, now }: Probed): Found | undefined {
  if (pod.status.phase !== "Running") return undefined;
  const container = pod.status.containerStatuses.find(({ ready }) => !ready);
  if (container === undefined) return undefined;
  const condition = pod.status.conditions.find(({ type, status }) => type === "Ready" && status === "False");
  const since = condition?.lastTransitionTime ?? undefined;
  const failure = latestFailure(events, container.name, now);
  if (failure === undefined && isLocalNode(valueOf(node)?.metadata.labels))
    return ofLocalNode(container.name, condition);
  if (failure === undefined) return undefined;
  return ofKubelet(
    pod.spec.containers.find(({ name }) => name === container.name) ?? { name: container.name },
    failure,
    since,
  );
}

function ofKubelet(
  spec: PodFacts["spec"]["containers"][number],
  failure: ProbeFailure,
  since: string | undefined,
): Found {
  const { kind } = failure;
  const probe = spec[`${kind}Probe`] ?? {};
  const cause = `The ${kind} probe of the container ${spec.name} fails: ${reasonOf(failure, probe)}`;
  const { periodSeconds } = probe;
  if (startsNothing(spec))
    return unhealthy(`${cause}; ${missingEntrypoint.cause}`, missingEntrypoint.hint, since, periodSeconds);
  const action = `Let the program in the container ${spec.name} answer the probe, or correct ${kind}Probe in the template`;
  return unhealthy(cause, action, since, periodSeconds);
}

/** The local node reports in the condition what a kubelet reports in an Event. */
function ofLocalNode(name: string, condition: PodFacts["status"]["conditions"][number] | undefined): Found {
  const cause = `The container ${name} is not ready: ${condition?.message ?? "its probes have not succeeded"}`;
  const isMissing = condition?.reason === missingEntrypoint.reason;
  const program = `Let the program in the container ${name} answer its probes, or correct them in the template`;
  const action = isMissing ? missingEntrypoint.hint : program;
  return unhealthy(cause, action, condition?.lastTransitionTime ?? undefined);
}

function unhealthy(cause: string, action: string, since: string | undefined, periodSeconds?: number | null): Found {
  const retry = `The node probes again every ${periodSeconds ?? 10} seconds`;
  return { cause, reason: "Unhealthy", since, retry, action };
}

/** The cell answers `tcpSocket` probes, and a kubelet reports only the status of its answer. */
function reasonOf({ why }: ProbeFailure, probe: ProbeFacts): string {
  const tcp = tcpProbeOf(probe);
  return tcp === undefined ? why : `port ${tcp.port} does not accept connections`;
}

interface Probed {
  pod: PodFacts;
  events: readonly EventFacts[];
  node: SandboxFacts["node"];
  now: Date;
}

function latestFailure(events: readonly EventFacts[], container: string, now: Date): ProbeFailure | undefined {
  const event = events.find(
    (one) =>
      one.reason === "Unhealthy" &&
      (one.regarding?.fieldPath ?? "").includes(`{${container}}`) &&
      secondsSince(lastSeen(one), now) < recentSeconds,
  );
  return probeFailureIn(event?.note ?? "");
}

/** An Event of a probe that has recovered stays for an hour. */
const recentSeconds = 600;
