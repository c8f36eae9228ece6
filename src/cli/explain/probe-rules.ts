import { tcpProbeOf } from "../../api/pod/tcp-probe.ts";
import { type Explanation, withoutStop } from "./explanation.ts";
import { type EventFacts, lastSeen, type PodFacts, type ProbeFacts } from "./facts.ts";
import { secondsSince } from "./time.ts";

/** Recognizes a running Pod that its probes do not let become ready. */
export function probeFails({ pod, events, now }: Probed): Explanation | undefined {
  if (pod.status.phase !== "Running") return undefined;
  const container = pod.status.containerStatuses.find(({ ready }) => !ready);
  if (container === undefined) return undefined;
  const condition = pod.status.conditions.find(({ type, status }) => type === "Ready" && status === "False");
  const failure = latestFailure(events, container.name, now) ?? failureIn(condition?.message ?? "");
  if (failure === undefined) return undefined;
  const probe = pod.spec.containers.find(({ name }) => name === container.name)?.[`${failure.kind}Probe`] ?? {};
  return {
    state: "stuck",
    cause: `The ${failure.kind} probe of the container ${container.name} fails: ${reasonOf(failure, probe)}`,
    reason: "Unhealthy",
    since: condition?.lastTransitionTime ?? undefined,
    retry: `The node probes again every ${probe.periodSeconds ?? 10} seconds`,
    action: `Let the program in the container ${container.name} answer the probe, or correct ${failure.kind}Probe in the template`,
  };
}

/** The cell answers `tcpSocket` probes, and a kubelet reports only the status of its answer. */
function reasonOf({ why }: Failure, probe: ProbeFacts): string {
  const tcp = tcpProbeOf(probe);
  return tcp === undefined ? why : `port ${tcp.port} does not accept connections`;
}

interface Probed {
  pod: PodFacts;
  events: readonly EventFacts[];
  now: Date;
}

interface Failure {
  kind: (typeof kinds)[number];
  why: string;
}

/** `Startup probe failed: HTTP probe failed with statuscode: 500` (kubelet, v1.36). */
function latestFailure(events: readonly EventFacts[], container: string, now: Date): Failure | undefined {
  const event = events.find(
    (one) =>
      one.reason === "Unhealthy" &&
      (one.regarding?.fieldPath ?? "").includes(`{${container}}`) &&
      secondsSince(lastSeen(one), now) < recentSeconds,
  );
  const [, kind = "", why = ""] =
    /^(Startup|Readiness|Liveness) probe (?:failed|errored)[^:]*: (.*)$/s.exec(event?.note ?? "") ?? [];
  return failureOf(kind.toLowerCase(), why);
}

/** An Event of a probe that has recovered stays for an hour. */
const recentSeconds = 600;

/** The local node's condition: `the readiness probe failed: ...`. */
function failureIn(message: string): Failure | undefined {
  const [, kind = "", why = ""] = /the (startup|readiness|liveness) probe (?:failed: )?(.*)$/s.exec(message) ?? [];
  return failureOf(kind, why);
}

function failureOf(kind: string, why: string): Failure | undefined {
  const known = kinds.find((one) => one === kind);
  return known && { kind: known, why: withoutStop(why) };
}

const kinds = ["startup", "readiness", "liveness"] as const;
