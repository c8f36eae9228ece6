import { mainContainer } from "../../api/pod/container-spec.ts";
import { claimName, claimVolumes } from "../../api/pod/volume-claims.ts";
import { annotations, finalizers } from "../../api/names/labels.ts";
import { volumesChoice } from "../../api/names/volumes-on-restore.ts";
import type { SandboxStatus } from "../../api/kinds/sandbox.ts";
import type { Pod } from "../../api/schema/pod.ts";
import type { PodTemplateSpec } from "../../api/schema/pod-template.ts";
import { startsSandbox } from "../../backends/checkpoint-parts.ts";
import type { Problem } from "../../api/schema/problem.ts";
import { problemOf, sentenceOf } from "../../api/state/problem.ts";
import { hasSystemCode, RametError, resultOrError } from "../../base/errors.ts";
import { isSavedFrom } from "../cluster/pause-checkpoint.ts";
import { cellRuns, isEnded, pullProblem, startProblem } from "../cluster/pod-facts.ts";
import type { Origin } from "../origin/origin.ts";
import type { ResolvedTemplate } from "../origin/resolve-template.ts";
import { listed } from "../volumes/restored-volumes.ts";
import { intendedEnd } from "./plan-disruption.ts";
import { isRefusedByCpu, lacksFeatures, planNextPod, planOtherNode, withoutTarget } from "./plan-other-node.ts";
import { planRefusedResume, refusedResume } from "./plan-paused.ts";
import { awaitsRetry, isResume, rollbackUnderWay } from "./rollback.ts";
import type { SandboxAction, SandboxPlan, SandboxState } from "./state.ts";
import { ended, failed, notReady, notStartable, running } from "./status.ts";

/** Starts a new or paused sandbox: creates a Pod, then boots or restores in it. */
export function planStart(state: SandboxState): SandboxPlan {
  const { template, pod, origin } = state;
  if (pod === undefined && origin.kind === "impossible")
    return { actions: [], status: notStarted(state, origin.error) };
  if (pod === undefined && origin.kind === "waiting") {
    return { actions: [], status: notReady(state, "PodCreateFailed", origin.message) };
  }
  if ("problem" in template) {
    return { actions: [], status: lacking(state, "PodCreateFailed", template.problem) };
  }
  if (pod === undefined) return planPod(state, template);
  if (isStranded(state, pod)) return planStranded(pod);
  if (pod.metadata.deletionTimestamp !== undefined && !mayHaveStarted(state, pod)) {
    return { ...planDeleting(state, pod), actions: intendedEnd(pod) };
  }
  const plan = planInPod(state, template, pod);
  return { ...plan, actions: [...finalizer(state, template), ...plan.actions] };
}

/**
 * Whether others end the Pod of a sandbox that its cell has got, from this process or from the one that led before: its program may run, so
 * the sandbox is asked about, and then captured like any other. The cell holds the end for that. A rollback itself ends the Pod that it
 * replaces.
 */
function mayHaveStarted(state: SandboxState, pod: Pod): boolean {
  if (rollbackUnderWay(state.sandbox)?.replacedPodUid === pod.metadata.uid) return false;
  const isHeld = isSavedFrom(state.sandbox, pod) && cellRuns(pod) && !isEnded(pod);
  return isHeld && isGiven(state, pod) && state.start?.state !== "failed";
}

function isGiven({ sandbox, startingCell }: SandboxState, { metadata }: Pod): boolean {
  return [startingCell, sandbox.status?.ramet?.startingPod].some((cell) => cell?.podUID === metadata.uid);
}

/**
 * Whether the node does not respond since before it has run the Pod of what is restored. Such a cell waits, and gets nothing from a
 * controller that has not recorded that before, so nothing ever runs in it.
 */
function isStranded(state: SandboxState, pod: Pod): boolean {
  const { isNodeSilent, origin } = state;
  const isRestored = origin.kind === "checkpoint" && startsSandbox(origin.source.parts);
  return isNodeSilent === true && isRestored && pod.status?.podIP === undefined && !isGiven(state, pod);
}

/** A node that comes back finds that the Pod does not exist any more. */
function planStranded(pod: Pod): SandboxPlan {
  const { name } = pod.metadata;
  const note = `The node ${pod.spec.nodeName ?? ""} does not respond, and the Pod ${name} has not run there: another one is created`;
  return {
    actions: [{ do: "deletePod", pod, isUnused: true }],
    transitions: [{ type: "Warning", reason: "NodeNotReady", action: "CreatePod", note }],
  };
}

/** A node that is gone never confirms the end of its Pods, and the next one has the same name. */
function planDeleting(state: SandboxState, pod: Pod): SandboxPlan {
  const { name, deletionTimestamp = "" } = pod.metadata;
  const what = `The Pod ${name} is being deleted`;
  const { nodeName: node } = pod.spec;
  if (node === undefined || isEnded(pod)) return slowly(state, what);
  const left = Date.parse(deletionTimestamp) + lateMilliseconds - state.now.getTime();
  if (left > 0) return { ...slowly(state, what), requeueAfterMilliseconds: left };
  const why = `the node ${node} has not confirmed its end, which was due at ${deletionTimestamp}`;
  return slowly(state, `${what}: ${why}. If that machine does not run any more, use kubectl delete node ${node}`);
}

const lateMilliseconds = 60_000;

/** A resume waits until a change of the template is undone: its memory is still there. */
function notStarted(state: SandboxState, error: RametError): SandboxStatus {
  if (!isResume(state.sandbox) || error.code !== "TemplateMismatch") return failed(state, error);
  return lacking(state, error.code, error);
}

/** Somebody has to create or correct what is missing, unless it is being made. */
function lacking(state: SandboxState, reason: string, error: RametError): SandboxStatus {
  const isComing = error.retryable || error.code === "CheckpointNotReady";
  return isComing
    ? notReady(state, reason, error.describe(), problemOf(error))
    : notStartable(state, reason, problemOf(error));
}

function planPod(state: SandboxState, template: ResolvedTemplate): SandboxPlan {
  if (state.foreignPod !== undefined) return planForeignPod(state, state.foreignPod);
  const problem = state.egress.problem ?? state.credentials.problem;
  if (problem !== undefined) return { actions: [], status: lacking(state, "PodCreateFailed", problem) };
  const lost = state.lostClaims.length > 0 ? lostProblem(state, template) : undefined;
  if (lost !== undefined) {
    const status = lacking(state, lost.code, lost);
    return { actions: [], status, requeueAfterMilliseconds: claimPollMilliseconds };
  }
  return planNewPod(state, template);
}

function planNewPod(state: SandboxState, template: ResolvedTemplate): SandboxPlan {
  const { policy } = state.egress;
  const { origin, image, volumes } = state;
  const source = origin.kind === "checkpoint" ? origin.source : undefined;
  const start = source === undefined || !startsSandbox(source.parts) ? "boot" : "wait";
  if (image.state === "waiting") return slowly(state, `Waiting for the registry of the image ${nameOfImage(template)}`);
  if (image.state === "unknown" && needsImage(template)) return planUnknownImage(state, template, image);
  const used = image.state === "known" ? image.image : image.state === "unknown" ? image.error : undefined;
  const avoided = avoidedBy(state);
  const create = { do: "createPod", template, start, source, egress: policy, volumes, image: used, avoided } as const;
  return { actions: [...finalizer(state, template), create] };
}

function avoidedBy({ cpus: { avoided }, leavingNodes = [] }: SandboxState): SandboxState["cpus"]["avoided"] {
  if (leavingNodes.length === 0) return avoided;
  const { names = [], instanceTypes = [], ...preferred } = avoided ?? {};
  return { ...preferred, names: [...new Set([...names, ...leavingNodes])], instanceTypes };
}

/** Without a command only the image says what runs. */
function needsImage({ template }: ResolvedTemplate): boolean {
  return (mainContainer(template).command ?? []).length === 0;
}

function nameOfImage({ template }: ResolvedTemplate): string {
  return mainContainer(template).image;
}

/** The sandbox waits: the registry may come back, and a Secret with credentials may be created. */
function planUnknownImage(
  state: SandboxState,
  template: ResolvedTemplate,
  { error, retryInMilliseconds }: Extract<SandboxState["image"], { state: "unknown" }>,
): SandboxPlan {
  if (state.pullTimeoutInMilliseconds === 0)
    return { actions: [], status: failed(state, imageUnknown(template, error)) };
  const what = `The sandbox cannot start, because its template has no command and the entrypoint of the image ${nameOfImage(template)} is unknown`;
  const hint = "Set command in the template, or let Pulumi record the image with recordImage of SandboxTemplate";
  const problem: Problem = { ...problemOf(error, what), hint };
  const message = `${what}: ${error.describe()}. ${hint}`;
  return {
    actions: [],
    status: error.retryable
      ? notReady(state, "ImageUnknown", message, problem)
      : notStartable(state, "ImageUnknown", problem, message),
    requeueAfterMilliseconds: Math.max(
      1,
      Math.ceil(Math.min(retryInMilliseconds, state.pullTimeoutInMilliseconds ?? Infinity)),
    ),
  };
}

function imageUnknown(template: ResolvedTemplate, { message, hint }: RametError): RametError {
  const what = `The entrypoint of the image ${nameOfImage(template)} is unknown: ${message}`;
  return new RametError("ImageNotFound", what, hint === undefined ? {} : { hint });
}

/** Claims have no informer, and the user may create a lost one again. */
const claimPollMilliseconds = 15_000;

/** A claim that is created again is empty, so that needs the user's word. */
function lostProblem({ sandbox, lostClaims }: SandboxState, { template, volumeClaims }: ResolvedTemplate) {
  return resultOrError(() => {
    const { name } = sandbox.metadata;
    const made = new Set(claimVolumes(volumeClaims, name).map((volume) => claimName(volume.name, name)));
    const isMade = lostClaims.every((claim) => made.has(claim));
    if (isMade && volumesChoice(sandbox, template) === "Empty") return undefined;
    return new RametError(
      "VolumesNotCaptured",
      `The sandbox cannot be resumed: its PersistentVolumeClaims ${listed(lostClaims)} were deleted while it had no Pod`,
      {
        hint: isMade
          ? `Create them again with their data, or set the annotation ${annotations.volumesOnRestore} to Empty for new, empty ones`
          : "Create them again with their data",
      },
    );
  });
}

/** The sandbox stays Pending, as in OpenKruise Agents: the name may become free. */
function planForeignPod(state: SandboxState, { metadata }: Pod): SandboxPlan {
  if (metadata.deletionTimestamp !== undefined)
    return slowly(state, `The Pod ${metadata.name} of an earlier sandbox is being deleted`);
  const problem: Problem = {
    code: "AlreadyExists",
    cause: `A Pod ${metadata.name} exists and belongs to something else`,
    hint: "Delete it, or give the sandbox another name",
    object: { kind: "Pod", name: metadata.name },
  };
  const message = sentenceOf(problem);
  return {
    actions: [],
    status: notStartable(state, "PodCreateFailed", problem, message),
    transitions: [{ type: "Warning", reason: "PodOwnerMismatch", action: "CreatePod", note: message }],
  };
}

function planInPod(state: SandboxState, { template }: ResolvedTemplate, pod: Pod): SandboxPlan {
  const { start } = state;
  if (start?.state === "done") {
    return { actions: [], status: running(state, pod, start.value), ...hiddenFiles(state.origin) };
  }
  if (isRefusedByCpu(state, pod)) return planOtherNode(state, pod);
  const refusal = refusedResume(state, pod);
  if (refusal !== undefined) return planRefusedResume(state, pod, refusal);
  const next = planNextPod(state, pod);
  if (next !== undefined) return next;
  // A cell that cannot start its sandbox responds with the reason and exits. The response has more detail than the Pod's end.
  if (start?.state === "failed") return { actions: [], status: failed(state, start.error) };
  if (isEnded(pod)) return { actions: [], status: ended(state, pod) };
  if (!cellRuns(pod)) return planWaiting(state, pod);
  if (start !== undefined) return slowly(state, whyWaiting(state, start.lastError, pod));
  return planContents(state, template, pod);
}

/** Reports that volumes of the template hide what files alone have at their paths. */
export function hiddenFiles(origin: Origin | undefined): Pick<SandboxPlan, "transitions"> {
  if (origin?.kind !== "checkpoint" || origin.hidden === undefined) return {};
  const { checkpointId } = origin.source.name;
  const note = `Volumes that the source of the checkpoint ${checkpointId} did not have hide its files in ${listed(origin.hidden)}`;
  return { transitions: [{ type: "Warning", reason: "FilesHidden", action: "Restore", note }] };
}

function planContents(state: SandboxState, template: PodTemplateSpec, pod: Pod): SandboxPlan {
  const { origin, departure } = state;
  if (origin.kind === "impossible") return { actions: [], status: failed(state, origin.error) };
  if (origin.kind === "waiting") return slowly(state, origin.message);
  if (departure?.turn === "later")
    return { ...slowly(state, "Waiting for the restores of other sandboxes"), requeueAfterMilliseconds: 5_000 };
  const source = origin.kind === "checkpoint" ? origin.source : undefined;
  return { actions: [{ do: "startSandbox", pod, template, source }] };
}

function planWaiting(state: SandboxState, pod: Pod): SandboxPlan {
  const pull = pullProblem(pod);
  if (pull !== undefined) return planUnpulled(state, pod, pull);
  if (state.avoidsInVain === true) return { actions: [{ do: "deletePod", pod }] };
  const unfit = lacksFeatures(state, pod);
  if (unfit !== undefined)
    return withoutTarget(state, pod, notReady(state, unfit.code, unfit.describe(), problemOf(unfit)));
  const problem = startProblem(pod);
  if (problem !== undefined) return withoutTarget(state, pod, notReady(state, "StartContainerFailed", problem));
  return slowly(state, `Waiting for the Pod ${pod.metadata.name} to start`);
}

/** Fails a sandbox of a set or a build after the pull timeout, with the words of the node or the registry. */
function planUnpulled(state: SandboxState, pod: Pod, words: string): SandboxPlan {
  const { pullTimeoutInMilliseconds: left } = state;
  if (left === 0) return { actions: [], status: failed(state, notPulled(pod, words)) };
  const problem = startProblem(pod) ?? words;
  return {
    actions: [],
    status: notStartable(state, "StartContainerFailed", problemOf(notPulled(pod, words)), problem),
    ...(left !== undefined && { requeueAfterMilliseconds: Math.max(1, Math.ceil(left)) }),
  };
}

function notPulled(pod: Pod, words: string): RametError {
  return new RametError("ImageNotFound", `An image of the Pod ${pod.metadata.name} cannot be pulled: ${words}`, {
    hint: "Check the image's name, imagePullSecrets and the node's access to the registry",
  });
}

/** Reports the reason of the wait once it is long. A fast start needs only one status write. */
export function slowly(state: SandboxState, message: string): SandboxPlan {
  if (state.slowInMilliseconds > 0 || awaitsRetry(state.sandbox)) return { actions: [] };
  return { actions: [], status: notReady(state, "PodStarting", message) };
}

/** A cell refuses connections until it listens, so a refusal is only reported if it lasts. */
function whyWaiting({ now }: SandboxState, error: RametError | undefined, { metadata }: Pod): string {
  const waiting = "Waiting for the sandbox to respond";
  if (error === undefined) return waiting;
  const age = now.getTime() - new Date(metadata.creationTimestamp).getTime();
  return hasSystemCode(error, "ECONNREFUSED") && age < refusalMilliseconds ? waiting : error.message;
}

const refusalMilliseconds = 30_000;

/**
 * Adds the finalizer. The same write gives a sandbox without a template the one of its checkpoint, which may be deleted later,
 * and records the checkpoint that a named snapshot resolves to.
 */
export function finalizer(
  { sandbox, origin, volumes: { claims } }: SandboxState,
  template: ResolvedTemplate,
): SandboxAction[] {
  if (sandbox.metadata.finalizers?.includes(finalizers.sandbox) ?? false) return [];
  const resolvedCheckpoint = origin.kind === "checkpoint" && origin.isNamed === true && origin.source.name.checkpointId;
  return [
    {
      do: "addFinalizer",
      ...(template.borrowed && { borrowed: template }),
      ...(resolvedCheckpoint !== false && { resolvedCheckpoint }),
      ...(claims.size > 0 && { claims }),
    },
  ];
}
