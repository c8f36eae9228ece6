import { type ProbeFailure, probeFailureIn } from "./kubernetes-texts.ts";
import { isLocalNode } from "../../api/names/system-names.ts";
import { tcpProbeOf } from "../../api/pod/tcp-probe.ts";
import type { Found } from "./explanation.ts";
import {
  type EventFacts,
  lastSeen,
  type PodFacts,
  type ProbeFacts,
  type SandboxFacts,
  valueOf,
  secondsSince,
} from "./facts.ts";

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
  const probe = pod.spec.containers.find(({ name }) => name === container.name)?.[`${failure.kind}Probe`] ?? {};
  return unhealthy(
    `The ${failure.kind} probe of the container ${container.name} fails: ${reasonOf(failure, probe)}`,
    since,
    {
      periodSeconds: probe.periodSeconds,
      action: `Let the program in the container ${container.name} answer the probe, or correct ${failure.kind}Probe in the template`,
    },
  );
}

/** The local node reports in the condition what a kubelet reports in an Event. */
function ofLocalNode(name: string, condition: PodFacts["status"]["conditions"][number] | undefined): Found {
  const cause = `The container ${name} is not ready: ${condition?.message ?? "its probes have not succeeded"}`;
  return unhealthy(cause, condition?.lastTransitionTime ?? undefined, {
    action: `Let the program in the container ${name} answer its probes, or correct them in the template`,
  });
}

function unhealthy(
  cause: string,
  since: string | undefined,
  { periodSeconds, action }: { periodSeconds?: number | null | undefined; action: string },
): Found {
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
