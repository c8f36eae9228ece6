import { type Explanation, withoutStop } from "./explanation.ts";
import { type EventFacts, lastSeen, type PodFacts } from "./facts.ts";
import { secondsSince } from "./time.ts";

/** Recognizes a running Pod that its probes do not let become ready. */
export function probeFails({ pod, events, now }: Probed): Explanation | undefined {
  if (pod.status.phase !== "Running") return undefined;
  const container = pod.status.containerStatuses.find(({ ready }) => !ready);
  if (container === undefined) return undefined;
  const condition = pod.status.conditions.find(({ type, status }) => type === "Ready" && status === "False");
  const failure = latestFailure(events, container.name, now) ?? failureIn(condition?.message ?? "");
  if (failure === undefined) return undefined;
  return {
    state: "stuck",
    cause: `The ${failure.kind} probe of the container ${container.name} fails: ${failure.why}`,
    reason: "Unhealthy",
    since: condition?.lastTransitionTime ?? undefined,
    retry: `The node probes again every ${periodSeconds(pod, container.name, failure)} seconds`,
    action: `Let the program in the container ${container.name} answer the probe, or correct ${failure.kind}Probe in the template`,
  };
}

interface Probed {
  pod: PodFacts;
  events: readonly EventFacts[];
  now: Date;
}

function periodSeconds({ spec }: PodFacts, container: string, { kind }: Failure): number {
  const found = spec.containers.find(({ name }) => name === container);
  const probe = kind === "startup" ? found?.startupProbe : found?.readinessProbe;
  return probe?.periodSeconds ?? 10;
}

interface Failure {
  kind: string;
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
  return kind === "" ? undefined : { kind: kind.toLowerCase(), why: withoutStop(why) };
}

/** An Event of a probe that has recovered stays for an hour. */
const recentSeconds = 600;

/** The local node's condition: `the readiness probe failed: ...`. */
function failureIn(message: string): Failure | undefined {
  const [, kind = "", why = ""] = /the (startup|readiness|liveness) probe (?:failed: )?(.*)$/s.exec(message) ?? [];
  return kind === "" ? undefined : { kind, why: withoutStop(why) };
}
