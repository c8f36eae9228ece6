import { cellPort, parseFailedCell } from "../../api/wire/cell-api.ts";
import { missingEntrypoint, startsNothing } from "../../api/pod/resolved-image.ts";
import { leastHeldSeconds } from "../../api/pod/disruption.ts";
import type { DisruptionCause } from "../../api/kinds/sandbox.ts";
import type { Problem } from "../../api/schema/problem.ts";
import type { ErrorCode } from "../../base/error-codes.ts";
import { defined } from "../../base/defined.ts";
import type { Container } from "../../api/schema/pod-template.ts";
import { type Pod, pullReasons } from "../../api/schema/pod.ts";

/** Whether the cell's container is running and the Pod has an address. Sidecars may still be starting. */
export function cellRuns(pod: Pod): boolean {
  if (pod.status?.podIP === undefined || pod.status.podIP === "") return false;
  const container = cellStatus(pod);
  return container === undefined ? pod.status.phase === "Running" : container.state?.running !== undefined;
}

/** When the cell's container started, by the node's clock. */
export function cellStartedAt(pod: Pod): string | undefined {
  return cellStatus(pod)?.state?.running?.startedAt;
}

/** Whether the node decides about more than the cell: startup and readiness probes of the template, or other containers. */
export function declaresReadiness({ spec }: Pod): boolean {
  const [, ...others] = spec.containers;
  const hasSidecar = spec.initContainers?.some((container) => container["restartPolicy"] === "Always") ?? false;
  return others.length > 0 || hasSidecar || probesProgram({ spec });
}

/** Whether probes of the template find out when the program of the sandbox can be used. */
export function probesProgram({ spec }: Pick<Pod, "spec">): boolean {
  const [cell] = spec.containers;
  return cell !== undefined && hasOwnProbe(cell);
}

function hasOwnProbe({ startupProbe, readinessProbe }: Container): boolean {
  if (startupProbe !== undefined) return true;
  const { httpGet } = readinessProbe ?? {};
  const isCells = httpGet?.port === cellPort && httpGet["path"] === "/readyz";
  return readinessProbe !== undefined && !isCells;
}

/** Why the node does not report the Pod as ready. */
export function unreadyMessage(pod: Pod): string {
  const message = nodesMessage(pod);
  const { cause, hint } = missingEntrypoint;
  if (!lacksEntrypoint(pod)) return message;
  return `${message.includes(cause) ? message : `${message}; ${cause}`}. ${hint}`;
}

/** Whether probes fail in a sandbox in which nothing was started: by the local node's report, or by the Pod. */
function lacksEntrypoint(pod: Pod): boolean {
  const { reason, conditions = [] } = pod.status ?? {};
  const reasons = [reason, ...conditions.map((condition) => condition.reason)];
  if (reasons.includes(missingEntrypoint.reason)) return true;
  const [cell] = pod.spec.containers;
  return cell !== undefined && probesProgram(pod) && startsNothing(cell);
}

function nodesMessage(pod: Pod): string {
  const condition = pod.status?.conditions?.find(({ type }) => type === "Ready");
  const why = condition?.status === "False" ? (condition.message ?? condition.reason) : undefined;
  const isGeneral = why === undefined || why === "" || why.startsWith("containers with unready status");
  return `The Pod is not Ready: ${(isGeneral ? waitingProbe(pod) : undefined) ?? why ?? "its probes have not succeeded yet"}`;
}

/** A kubelet's condition names only the containers, and its events their probes. */
function waitingProbe({ spec, status }: Pod): string | undefined {
  const containers = [...(spec.initContainers ?? []), ...spec.containers];
  for (const { name, ready, started, state } of allStatuses(status)) {
    const container = containers.find((one) => one.name === name);
    if (container === undefined || state?.running === undefined || ready !== false) continue;
    const kind = started === false && container["startupProbe"] !== undefined ? "startup" : "readiness";
    if (container[`${kind}Probe`] === undefined) continue;
    return `the ${kind} probe of the container ${name} has not succeeded; see why with: kubectl describe pod`;
  }
  return undefined;
}

/** Whether others than the controllers end the Pod, or have said that they will. The controllers change the phase of a sandbox before. */
export function isDisrupted(pod: Pod): boolean {
  return pod.metadata.deletionTimestamp !== undefined || disruptionTarget(pod) !== undefined;
}

function disruptionTarget({ status }: Pod) {
  return status?.conditions?.find((one) => one.type === "DisruptionTarget" && one.status === "True");
}

/** Who ends the Pod, by the reason of its condition (Kubernetes v1.36, pkg/apis/core/types.go). */
export function disruptionCause(pod: Pod | undefined): DisruptionCause {
  const reason = pod && disruptionTarget(pod)?.reason;
  const byNode = nodeCauses[pod?.status?.reason ?? ""];
  if (reason === "TerminationByKubelet") return byNode ?? "NodeShutdown";
  return causes[reason ?? ""] ?? byNode ?? "PodDeleted";
}

/** Whether the node itself has ended the Pod. It says so only then. */
export function isEndedByNode(pod: Pod): boolean {
  return isEnded(pod) && (disruptionTarget(pod) !== undefined || nodeCauses[pod.status?.reason ?? ""] !== undefined);
}

/**
 * Whether Kubernetes has ended the Pod without its node, where it may still run. A node that ends a Pod says with the phase that its
 * containers have ended; the garbage collector of Pods sets only the phase (Kubernetes v1.36, pkg/controller/podgc).
 */
export function isEndedUnseen(pod: Pod): boolean {
  if (!isEnded(pod)) return false;
  return causes[disruptionTarget(pod)?.reason ?? ""] === "NodeLost" || cellStatus(pod)?.state?.running !== undefined;
}

/**
 * Why a Pod has failed, unless its own program, its limits or what it lacks ended it: its node, or the end of its cell or of gVisor
 * without a reason, as of a machine that has crashed.
 */
export function causeOfEnd(pod: Pod): DisruptionCause | undefined {
  if (pod.status?.phase !== "Failed") return undefined;
  if (isEndedByNode(pod)) return disruptionCause(pod);
  const failed = failedCell(pod);
  if (failed !== undefined) return failed.code === ("SandboxLost" satisfies ErrorCode) ? "CellDied" : undefined;
  const { exitCode = killedExitCode, reason = "" } = terminatedCell(pod) ?? {};
  const isOwn = ownLimits.has(pod.status.reason ?? reason) || exitCode < killedExitCode;
  return isOwn ? undefined : "CellDied";
}

/**
 * Why a Pod has failed before its sandbox was restored in it. Undefined: by what every Pod of its template has, such as an init container
 * that fails.
 */
export function causeOfEndedStart(pod: Pod): DisruptionCause | undefined {
  return exceededStorage(pod) !== undefined || failedInit(pod) !== undefined ? undefined : causeOfEnd(pod);
}

const ownLimits: ReadonlySet<string> = new Set(["OOMKilled", "DeadlineExceeded"]);

/** Exit codes of what a signal has ended begin here. An entrypoint that a signal has ended leaves a message of its cell. */
const killedExitCode = 128;

/**
 * What has ended a Pod during a disruption with this cause, if the sandbox was not captured. Undefined: its own program or its limits.
 * A node that is silent until its Pod is removed was lost, whatever has begun the end of the Pod.
 */
export function causeOfUncaptured(
  cause: DisruptionCause | (string & {}),
  pod: Pod | undefined,
): DisruptionCause | (string & {}) | undefined {
  if (pod === undefined) return cause === ("NodeTaint" satisfies DisruptionCause) ? "NodeLost" : cause;
  if (!isEnded(pod)) return cause;
  const own = causeOfEnd(pod);
  return isDisrupted(pod) && (own !== undefined || wasAskedToEnd(pod)) ? cause : own;
}

/** Clocks of nodes differ, and the times are whole seconds. */
const toleratedMilliseconds = 2_000;

/** Whether the program may have ended because its node has asked it to. Until then the cell holds the end of its Pod. */
function wasAskedToEnd(pod: Pod): boolean {
  const { deletionTimestamp } = pod.metadata;
  const { finishedAt, reason = "" } = terminatedCell(pod) ?? {};
  const isOwn = ownLimits.has(pod.status?.reason ?? reason) || failedCell(pod) !== undefined;
  if (isOwn || deletionTimestamp === undefined) return false;
  const { terminationGracePeriodSeconds: graceSeconds = 0 } = pod.spec;
  const askedAt = Date.parse(deletionTimestamp) - (graceSeconds - leastHeldSeconds(graceSeconds)) * 1000;
  return finishedAt == null || Date.parse(finishedAt) >= askedAt - toleratedMilliseconds;
}

/** By the reason of the Pod (Kubernetes v1.36, pkg/kubelet/eviction and pkg/kubelet/nodeshutdown). */
const nodeCauses: Readonly<Record<string, DisruptionCause>> = {
  Evicted: "Evicted",
  NodeShutdown: "NodeShutdown",
  Terminated: "NodeShutdown",
};

const causes: Readonly<Record<string, DisruptionCause>> = {
  EvictionByEvictionAPI: "Evicted",
  PreemptionByScheduler: "Preempted",
  DeletionByTaintManager: "NodeTaint",
  DeletionByPodGC: "NodeLost",
};

export function isEnded(pod: Pod): boolean {
  return pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
}

/** Why a Pod has ended, as far as its cell and its node report it. */
export function endProblem(pod: Pod): Problem {
  const exceeded = exceededStorage(pod);
  if (exceeded !== undefined)
    return { ...exceeded, hint: `${exceeded.hint}, and create the sandbox again. ${keptHint}` };
  const { hint } = failedCell(pod) ?? {};
  const code = endReason(pod);
  const cause = endMessage(pod);
  const { reason, ...missing } = missingEntrypoint;
  if (code === reason) return { code, cause, hint: missing.hint };
  if (code === "PodFailed" && lacksEntrypoint(pod))
    return { code: reason, cause: `${cause}; ${missing.cause}`, hint: missing.hint };
  return { code, cause, ...defined({ hint }) };
}

/**
 * Why the kubelet has ended a Pod that used more disk than a limit of it allows, which it does without a grace period (Kubernetes v1.36,
 * pkg/kubelet/eviction/eviction_manager.go).
 */
export function exceededStorage({ status: { reason, message = "" } = {} }: Pick<Pod, "status">) {
  if (reason !== "Evicted" || !storageLimit.test(message)) return undefined;
  const words = message.trim().replace(/\.$/, "");
  const limit = words.includes("EmptyDir") ? "sizeLimit of this volume" : "the limit of ephemeral-storage";
  return {
    code: reason,
    cause: `It used more disk than its Pod's limit allows, and the node has ended it without a capture: ${words}`,
    hint: `Raise ${limit} in the template, or delete files earlier`,
  } satisfies Problem;
}

const keptHint =
  "With the annotation ramet.dev/checkpoint-every, one that the node ends continues from its last automatic checkpoint";

const storageLimit =
  /ephemeral local storage usage exceeds|exceeded its local ephemeral storage limit|Usage of EmptyDir volume .* exceeds the limit/;

function failedCell(pod: Pod): ReturnType<typeof parseFailedCell> {
  return parseFailedCell(terminatedCell(pod)?.message);
}

/** Why a Pod has ended: the message of the cell, if it left one. */
export function endMessage(pod: Pod): string {
  const ended = terminatedCell(pod);
  const own = failedCell(pod)?.message ?? ended?.message ?? pod.status?.message;
  if (own !== undefined && own.trim() !== "") return own.trim();
  const init = failedInit(pod);
  if (init !== undefined) return init;
  return ended === undefined ? `The Pod ${pod.metadata.name} has ended` : `The cell exited with code ${ended.exitCode}`;
}

/** An init container that has failed: no container of a sandbox's Pod is restarted, so it ends the Pod. */
function failedInit({ metadata, status }: Pod): string | undefined {
  for (const { name, state } of status?.initContainerStatuses ?? []) {
    const { exitCode = 0 } = state?.terminated ?? {};
    if (exitCode === 0) continue;
    const command = `kubectl logs ${metadata.name} -n ${metadata.namespace} -c ${name}`;
    return `The init container ${name} failed with exit code ${exitCode}; see why with: ${command}`;
  }
  return undefined;
}

/** A condition reason for how a Pod has ended: that of Kubernetes' Ready condition, or the reason that the node reports. */
function endReason(pod: Pod): string {
  if (pod.status?.phase === "Succeeded") return "PodCompleted";
  const code = failedCell(pod)?.code;
  if (code !== undefined) return code;
  const reason = pod.status?.reason ?? terminatedCell(pod)?.reason ?? "";
  // Runtimes report Error for every exit code other than 0.
  return reason === "" || reason === "Error" ? "PodFailed" : reason;
}

/** The problem that keeps a container from starting and lasts longer than a moment, such as an image that cannot be pulled. */
export function startProblem({ status }: Pod): string | undefined {
  for (const { name, state } of allStatuses(status)) {
    const { reason, message } = state?.waiting ?? {};
    if (reason === undefined || passing.has(reason)) continue;
    return `The container ${name} cannot be started: ${[reason, message].filter(Boolean).join(": ")}`;
  }
  const words = unscheduledWords({ status });
  return words && `The Pod cannot be scheduled: ${words}`;
}

/** The scheduler's words if no node takes the Pod. */
export function unscheduledWords({ status }: Pick<Pod, "status">): string | undefined {
  const unscheduled = status?.conditions?.find((one) => one.type === "PodScheduled" && one.status === "False");
  return unscheduled && (unscheduled.message ?? "no reason given");
}

function allStatuses({ initContainerStatuses = [], containerStatuses = [] }: NonNullable<Pod["status"]> = {}) {
  return [...initContainerStatuses, ...containerStatuses];
}

/** The node's words, often its registry's, if an image of the Pod cannot be pulled. */
export function pullProblem({ status }: Pod): string | undefined {
  for (const { state } of allStatuses(status)) {
    const { reason = "", message } = state?.waiting ?? {};
    if (pullReasons.has(reason)) return message ?? reason;
  }
  return undefined;
}

const passing = new Set(["PodInitializing", "ContainerCreating"]);

function terminatedCell(pod: Pod) {
  return cellStatus(pod)?.state?.terminated;
}

function cellStatus(pod: Pod) {
  const name = pod.spec.containers[0]?.name;
  return pod.status?.containerStatuses?.find((container) => container.name === name);
}
