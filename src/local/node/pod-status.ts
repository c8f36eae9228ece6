import type { CellState } from "../../api/cell/cell-api.ts";
import type { Condition } from "../../api/schema/metadata.ts";
import { setCondition } from "../../kube/conditions.ts";
import type { NodePod, NodePodStatus } from "./pod.ts";
import type { ProbeVerdict } from "./probes.ts";

/** What the node knows about one of its Pods. */
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

export interface StatusContext {
  hostIP: string;
  now: Date;
}

/** The Pod's complete status. Fields of other writers are kept. */
export function podStatus(pod: NodePod, observation: Observation, { hostIP, now }: StatusContext): NodePodStatus {
  const { phase, reason, message, ready, container } = facts(observation);
  const { reason: _reason, message: _message, ...before } = pod.status ?? {};
  const ip = "ip" in observation ? observation.ip : undefined;
  const { name = "", image = "" } = pod.spec.containers[0] ?? {};
  return {
    ...before,
    phase,
    ...(reason !== undefined && { reason }),
    ...(message !== undefined && { message }),
    hostIP,
    hostIPs: [{ ip: hostIP }],
    ...(ip !== undefined && { podIP: ip, podIPs: [{ ip }] }),
    startTime: before["startTime"] ?? seconds(now),
    conditions: conditions(pod, { ready, container, ended: phase === "Succeeded" || phase === "Failed" }, now),
    containerStatuses: [
      {
        name,
        image,
        imageID: "",
        ready: ready.status === "True",
        // A cell is never restarted in place (src/api/cell/cell-pod.ts).
        restartCount: 0,
        started: isStarted(observation),
        lastState: {},
        state: container,
      },
    ],
  };
}

function isStarted(observation: Observation): boolean {
  return observation.kind === "running" && observation.probes?.started !== false;
}

type ContainerState = NonNullable<NonNullable<NodePodStatus["containerStatuses"]>[number]["state"]>;

interface Facts {
  phase: NonNullable<NodePodStatus["phase"]>;
  reason?: string;
  message?: string | undefined;
  ready: { status: "True" | "False"; reason: string; message: string };
  container: ContainerState;
}

function facts(observation: Observation): Facts {
  switch (observation.kind) {
    case "waiting": {
      const { reason, message } = observation;
      return {
        phase: "Pending",
        ready: { status: "False", reason: "ContainersNotReady", message },
        container: { waiting: { reason, message } },
      };
    }
    case "refused": {
      const { reason, message } = observation;
      const container = { waiting: { reason, message } };
      return { phase: "Failed", reason, message, ready: { status: "False", reason: "PodFailed", message }, container };
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

function endFacts({ exitCode, reason, message, startedAt, finishedAt }: Observation & { kind: "ended" }): Facts {
  const succeeded = exitCode === 0;
  const terminated = {
    exitCode,
    reason,
    ...(message !== undefined && { message }),
    ...(startedAt !== undefined && { startedAt: seconds(new Date(startedAt)) }),
    finishedAt: seconds(new Date(finishedAt)),
  };
  return {
    phase: succeeded ? "Succeeded" : "Failed",
    ...(succeeded ? {} : { reason }),
    message,
    ready: {
      status: "False",
      reason: succeeded ? "PodCompleted" : "PodFailed",
      message: message ?? `the container ended with exit code ${exitCode}`,
    },
    container: { terminated },
  };
}

/** Reported as one phase: a start is then one write of the status instead of four. */
const startPhases: ReadonlySet<CellState["phase"]> = new Set(["preparing", "waiting", "booting", "restoring"]);

function readiness(cell: CellState, probes: ProbeVerdict | undefined): Facts["ready"] {
  if (cell.ready && probes?.ready === false)
    return { status: "False", reason: "ContainersNotReady", message: probes.message ?? "a probe has not succeeded" };
  if (cell.ready) return { status: "True", reason: "SandboxReady", message: "the sandbox is ready" };
  const message =
    cell.message ?? (startPhases.has(cell.phase) ? "the sandbox is starting" : `the sandbox is ${cell.phase}`);
  return { status: "False", reason: "ContainersNotReady", message };
}

function conditions(
  pod: NodePod,
  { ready, container, ended }: Pick<Facts, "ready" | "container"> & { ended: boolean },
  now: Date,
): NonNullable<NodePodStatus["conditions"]> {
  const started = container.waiting === undefined;
  const done = { reason: ended ? "PodCompleted" : "PodStarted", message: "" };
  const desired: Omit<Condition, "lastTransitionTime">[] = [
    { type: "PodReadyToStartContainers", status: started && !ended ? "True" : "False", ...done },
    { type: "Initialized", status: "True", ...done },
    { type: "ContainersReady", ...ready },
    { type: "Ready", ...ready },
    { type: "PodScheduled", status: "True", reason: "Bound", message: "" },
  ];
  // The API server omits empty fields, which Condition requires.
  const known = (pod.status?.conditions ?? []).map((condition) => ({
    ...condition,
    reason: condition.reason ?? "",
    message: condition.message ?? "",
    lastTransitionTime: condition.lastTransitionTime ?? seconds(now),
  }));
  return desired.reduce<Condition[]>((all, condition) => setCondition(all, condition, now), known);
}

/** `metav1.Time` has no fractions. */
function seconds(date: Date): string {
  return date.toISOString().replace(/\.\d+Z$/, "Z");
}
