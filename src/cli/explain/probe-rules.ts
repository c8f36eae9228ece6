import { type ProbeFailure, probeFailureIn } from "./kubernetes-texts.ts";
import { isLocalNode } from "../../api/names/system-names.ts";
import { missingEntrypoint, startsNothing } from "../../api/pod/missing-entrypoint.ts";
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
