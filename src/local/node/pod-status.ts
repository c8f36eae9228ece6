import type { CellState } from "../../api/wire/cell-api.ts";
import { missingEntrypoint, startedNothing } from "../../api/pod/resolved-image.ts";
import type { Condition } from "../../api/schema/metadata.ts";
import { defined } from "../../base/defined.ts";
import { setCondition } from "../../kube/conditions.ts";
import type { NodePod, NodePodStatus } from "./pod.ts";
import type { ProbeVerdict } from "./probes.ts";

/** The node's knowledge about one of its Pods. */
export type Observation =
  | { kind: "waiting"; reason: string; message: string }
  | { kind: "refused"; reason: string; message: string }
  | { kind: "running"; ip: string; startedAt: string; cell: CellState; probes?: ProbeVerdict | undefined }
  | {
      kind: "ended";
      ip?: string;
      startedAt?: string;
      finishedAt: string;
      exitCode: number;
      reason: string;
      message?: string | undefined;
    };

/** The other containers of a Pod. */
export interface SideStatus {
  initContainerStatuses: ContainerStatus[];
  /** The statuses of the containers after the sandbox's. */
  containerStatuses: ContainerStatus[];
  initialized: boolean;
  /** Why one of them is not ready. Undefined if all are. */
  problem: string | undefined;
}

export interface StatusContext {
  hostIP: string;
  now: Date;
  /** Undefined if the sandbox's container is the only one. */
  sides?: SideStatus | undefined;
}

/** The Pod's complete status. Fields of other writers are kept. */
export function podStatus(
  pod: NodePod,
  observation: Observation,
  { hostIP, now, sides }: StatusContext,
): NodePodStatus {
  const all = facts(observation);
  const { phase, reason, message } = all;
  const { reason: _reason, message: _message, ...before } = pod.status ?? {};
  const ip = "ip" in observation ? observation.ip : undefined;
  return {
    ...before,
    phase,
    ...defined({ reason, message }),
    hostIP,
    hostIPs: [{ ip: hostIP }],
    ...(ip !== undefined && { podIP: ip, podIPs: [{ ip }] }),
    startTime: before["startTime"] ?? seconds(now),
    conditions: conditions(pod, desiredConditions(all, sides), now),
    ...defined({ initContainerStatuses: sides?.initContainerStatuses }),
    containerStatuses: [sandboxStatus(pod, observation, all), ...(sides?.containerStatuses ?? [])],
  };
}

function sandboxStatus({ spec }: NodePod, observation: Observation, { ready, container }: Facts): ContainerStatus {
  const { name = "", image = "" } = spec.containers[0] ?? {};
  return {
    name,
    image,
    imageID: "",
    ready: ready.status === "True",
    // A cell is never restarted in place (src/api/pod/cell-pod.ts).
    restartCount: 0,
    started: observation.kind === "running" && observation.probes?.started !== false,
    lastState: {},
    state: container,
  };
}

export type ContainerStatus = NonNullable<NodePodStatus["containerStatuses"]>[number];
type ContainerState = NonNullable<ContainerStatus["state"]>;

interface Facts {
  phase: NonNullable<NodePodStatus["phase"]>;
  reason?: string;
  message?: string | undefined;
  ready: { status: "True" | "False"; reason: string; message: string };
  container: ContainerState;
}

function facts(observation: Observation): Facts {
  switch (observation.kind) {
    case "waiting":
      return { phase: "Pending", ready: notReady(observation.message), container: waiting(observation) };
    case "refused": {
      const { reason, message } = observation;
      const ready = notReady(message, "PodFailed");
      return { phase: "Failed", reason, message, ready, container: waiting(observation) };
    }
    case "running":
      return {
        phase: "Running",
        ready: readiness(observation.cell, observation.probes),
        container: { running: { startedAt: seconds(new Date(observation.startedAt)) } },
      };
    case "ended":
      return endFacts(observation);
  }
}

function waiting({ reason, message }: { reason: string; message: string }): ContainerState {
  return { waiting: { reason, message } };
}

type Ended = Observation & { kind: "ended" };

function endFacts(observation: Ended): Facts {
  const { exitCode, reason, message } = observation;
  const succeeded = exitCode === 0;
  const why = message ?? `the container ended with exit code ${exitCode}`;
  return {
    phase: succeeded ? "Succeeded" : "Failed",
    ...(succeeded ? {} : { reason }),
    message,
    ready: notReady(why, succeeded ? "PodCompleted" : "PodFailed"),
    container: { terminated: terminated(observation) },
  };
}

/** The state of a container that has ended. */
export function terminated({ exitCode, reason, message, startedAt, finishedAt }: Ended) {
  return {
    exitCode,
    reason,
    ...defined({ message, startedAt: startedAt && seconds(new Date(startedAt)) }),
    finishedAt: seconds(new Date(finishedAt)),
  };
}

/** Reported as one phase: a start is then one write of the status instead of four. */
const startPhases: ReadonlySet<CellState["phase"]> = new Set(["preparing", "waiting", "booting", "restoring"]);

function readiness(cell: CellState, probes: ProbeVerdict | undefined): Facts["ready"] {
  if (cell.ready && probes?.ready === false) {
    const { message = "a probe has not succeeded" } = probes;
    if (!startedNothing(cell)) return notReady(message);
    return notReady(`${message}; ${missingEntrypoint.cause}`, missingEntrypoint.reason);
  }
  if (cell.ready) {
    const message = ["the sandbox is ready", ...(probes?.message === undefined ? [] : [probes.message])].join("; ");
    return { status: "True", reason: "SandboxReady", message };
  }
  const message =
    cell.message ?? (startPhases.has(cell.phase) ? "the sandbox is starting" : `the sandbox is ${cell.phase}`);
  return notReady(message);
}

type DesiredCondition = Omit<Condition, "lastTransitionTime">;

function desiredConditions(
  { phase, ready: ofSandbox, container }: Facts,
  sides: SideStatus | undefined,
): DesiredCondition[] {
  const ended = phase === "Succeeded" || phase === "Failed";
  const started = container.waiting === undefined;
  const ready = ofSandbox.status === "True" && sides?.problem !== undefined ? notReady(sides.problem) : ofSandbox;
  const done = { reason: ended ? "PodCompleted" : "PodStarted", message: "" };
  const initialized: DesiredCondition =
    sides?.initialized === false
      ? { type: "Initialized", status: "False", reason: "ContainersNotInitialized", message: sides.problem ?? "" }
      : { type: "Initialized", status: "True", ...done };
  return [
    { type: "PodReadyToStartContainers", status: started && !ended ? "True" : "False", ...done },
    initialized,
    { type: "ContainersReady", ...ready },
    { type: "Ready", ...ready },
    { type: "PodScheduled", status: "True", reason: "Bound", message: "" },
  ];
}

/**
 * The node's own conditions have a fixed order. The binding of a Pod writes one of them while the node writes the others: with the
 * order of what is known, each of two writes would change the order of the other one, again and again.
 */
function conditions(
  pod: NodePod,
  desired: readonly DesiredCondition[],
  now: Date,
): NonNullable<NodePodStatus["conditions"]> {
  // The API server omits empty fields, which Condition requires.
  const known = (pod.status?.conditions ?? []).map((condition) => ({
    ...condition,
    reason: condition.reason ?? "",
    message: condition.message ?? "",
    lastTransitionTime: condition.lastTransitionTime ?? seconds(now),
  }));
  const all = desired.reduce<Condition[]>((current, condition) => setCondition(current, condition, now), known);
  const own = desired.flatMap(({ type }) => all.filter((condition) => condition.type === type));
  return [...own, ...all.filter((condition) => !own.includes(condition))];
}

function notReady(message: string, reason = "ContainersNotReady"): Facts["ready"] {
  return { status: "False", reason, message };
}

/** `metav1.Time` has no fractions. */
export function seconds(date: Date): string {
  return date.toISOString().replace(/\.\d+Z$/, "Z");
}
