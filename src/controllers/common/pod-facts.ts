import type { Pod } from "../../api/schema/pod.ts";

/** Whether the container that runs the cell runs, at an address. Sidecars may still be starting. */
export function cellRuns(pod: Pod): boolean {
  if (pod.status?.podIP === undefined || pod.status.podIP === "") return false;
  const container = cellStatus(pod);
  return container === undefined ? pod.status.phase === "Running" : container.state?.running !== undefined;
}

export function isEnded(pod: Pod): boolean {
  return pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
}

/** Why a Pod has ended, in the words of the cell where there are any. */
export function endMessage(pod: Pod): string {
  const ended = cellStatus(pod)?.state?.terminated;
  const own = ended?.message ?? pod.status?.message;
  if (own !== undefined && own.trim() !== "") return own.trim();
  return ended === undefined ? `The Pod ${pod.metadata.name} has ended` : `It ended with exit code ${ended.exitCode}`;
}

/** One word for how a Pod has ended: Kubernetes' own for its Ready condition, or what the node says went wrong. */
export function endReason(pod: Pod): string {
  if (pod.status?.phase === "Succeeded") return "PodCompleted";
  const told = pod.status?.reason ?? cellStatus(pod)?.state?.terminated?.reason;
  // Of any exit code but 0, runtimes say Error and no more.
  return told === undefined || told === "" || told === "Error" ? "PodFailed" : told;
}

/** What keeps a container from starting that will not go away by waiting a moment: an image that cannot be had, say. */
export function startProblem({ status }: Pod): string | undefined {
  for (const { name, state } of status?.containerStatuses ?? []) {
    const { reason, message } = state?.waiting ?? {};
    if (reason === undefined || passing.has(reason)) continue;
    return `The container ${name} cannot be started: ${[reason, message].filter(Boolean).join(": ")}`;
  }
  const unscheduled = status?.conditions?.find((one) => one.type === "PodScheduled" && one.status === "False");
  return unscheduled && `No node takes the Pod: ${unscheduled.message ?? "no reason given"}`;
}

const passing = new Set(["PodInitializing", "ContainerCreating"]);

function cellStatus(pod: Pod) {
  const name = pod.spec.containers[0]?.name;
  return pod.status?.containerStatuses?.find((container) => container.name === name);
}
