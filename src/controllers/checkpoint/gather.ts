import { checkpointIdOf, isCloneable, isPauseCheckpoint, isUnfinished, earlierOf } from "../../api/state/checkpoint.ts";
import { isStartRefused, sandboxState } from "../../api/state/sandbox.ts";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import {
  contentsByDefault,
  resolveCheckpointSpec,
  type ResolvedCheckpointSpec,
} from "../../api/kinds/checkpoint-spec.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { labels } from "../../api/names/labels.ts";
import { type VolumeClaim, volumeClaims } from "../../api/pod/volume-claims.ts";
import { pendingRollback } from "../../api/names/rollback-request.ts";
import { disruptionPolicyOf } from "../../api/pod/disruption.ts";
import { isPodReady, type Pod } from "../../api/schema/pod.ts";
import type { CheckpointRecord } from "../../backends/checkpoint-record.ts";
import { type SandboxRef, sandboxRef } from "../../backends/runtime.ts";
import { RametError } from "../../base/errors.ts";
import { findCondition } from "../../kube/conditions.ts";
import { controllerOf, keyOf } from "../../kube/object.ts";
import { capturedPodUid, dataIdOf, disruptionCheckpointName, pauseCheckpointOf } from "../cluster/pause-checkpoint.ts";
import { endMessage, isDisrupted, isEnded } from "../cluster/pod-facts.ts";
import { claimsOfSandbox, keptVolumes } from "../volumes/restored-volumes.ts";
import { resolveTemplate } from "../origin/resolve-template.ts";
import { secretsOfSandbox, secretsOfTemplate } from "../origin/secrets-in-memory.ts";
import type { CheckpointDependencies, CheckpointState, Source } from "./state.ts";

/** Reads the state for a plan from the cache. Where that state would reject the checkpoint, also asks the API server. */
export async function gather(
  checkpoint: Checkpoint,
  dependencies: CheckpointDependencies,
): Promise<Omit<CheckpointState, "quota">> {
  const { captures, clock, dataFindings } = dependencies;
  const { uid } = checkpoint.metadata;
  const capture = captures.get(uid);
  const spec = specOf(checkpoint, dependencies);
  const source = "problem" in spec ? spec : await findSource(checkpoint, spec, dependencies);
  return {
    checkpoint,
    checkpointId: checkpoint.status?.checkpointId ?? checkpointIdOf(checkpoint.metadata),
    spec,
    source,
    earlierCapture: earlierCaptureOf(checkpoint, source, dependencies),
    preparation: await preparationFor(checkpoint, { spec, source, capture }, dependencies),
    capture,
    ...outsideOf(checkpoint, { source, capture }, dependencies),
    finding: dataFindings.of(checkpoint),
    now: clock.now(),
  };
}

/** The snapshots of volumes need programs that a local cluster prepares. */
async function preparationFor(
  checkpoint: Checkpoint,
  { spec, source, capture }: Pick<CheckpointState, "spec" | "source" | "capture">,
  { cache, readPreparation }: CheckpointDependencies,
): Promise<CheckpointState["preparation"]> {
  if (!isUnfinished(checkpoint) || capture !== undefined || "problem" in spec || spec.volumes === "none")
    return undefined;
  const claims = "dataId" in source ? source.sandbox?.claims : volumesOfSource(checkpoint, source, cache);
  return claims === undefined || claims.length === 0 ? undefined : readPreparation();
}

/** The Secrets that the data may hold, and the volumes that it lacks. Only the status of a finished capture lists them. */
function outsideOf(
  checkpoint: Checkpoint,
  { source, capture }: Pick<CheckpointState, "source" | "capture">,
  dependencies: CheckpointDependencies,
): Pick<CheckpointState, "secrets" | "volumes"> {
  // The template of an import says nothing about where its data comes from.
  if (capture?.state !== "done" || "volumeImport" in source) return { secrets: [], volumes: [] };
  const known: Partial<CheckpointRecord> = "dataId" in source ? capture.value : {};
  return {
    secrets: known.secrets ?? secretsOf(checkpoint, source, dependencies),
    volumes: known.volumes ?? volumesOfSource(checkpoint, source, dependencies.cache),
  };
}

/** The kept template stands in for a source that no longer exists. */
function secretsOf({ metadata }: Checkpoint, source: Source, { cache }: CheckpointDependencies): string[] {
  if ("pod" in source) return secretsOfSandbox(source.sandbox, cache);
  return cache.templatesOwnedBy(metadata.uid).flatMap(({ spec }) => secretsOfTemplate(spec.template));
}

/** The volumes of the source that are PersistentVolumeClaims. The kept template describes a source that no longer exists. */
export function volumesOfSource(
  checkpoint: Checkpoint,
  source: Source,
  cache: Pick<CheckpointDependencies["cache"], "templatesOwnedBy">,
): VolumeClaim[] {
  if (!("pod" in source)) return keptVolumes(checkpoint, cache);
  return volumeClaims(source.pod.spec.volumes ?? [], source.pod.metadata.name);
}

function specOf(checkpoint: Checkpoint, { cache }: CheckpointDependencies): CheckpointState["spec"] {
  try {
    const { sandboxName, podName } = checkpoint.spec;
    const sandbox = cache.sandbox(`${checkpoint.metadata.namespace}/${sandboxName ?? podName ?? ""}`);
    const template =
      sandbox?.spec.templateRef && cache.template(`${checkpoint.metadata.namespace}/${sandbox.spec.templateRef.name}`);
    return resolveCheckpointSpec(checkpoint.spec, contentsByDefault(sandbox?.spec, template?.spec));
  } catch (error) {
    return { problem: RametError.from(error) };
  }
}

async function findSource(
  checkpoint: Checkpoint,
  spec: ResolvedCheckpointSpec,
  { cache, informers, captures, departures }: CheckpointDependencies,
): Promise<Source> {
  const { volumeImport } = checkpoint.spec;
  // Before all else: neither labels nor annotations make it a capture.
  if (volumeImport !== undefined) return { volumeImport };
  const { namespace, uid, deletionTimestamp } = checkpoint.metadata;
  const at = { namespace, name: spec.sandboxName };
  const dataId = checkpoint.metadata.labels?.[labels.dataOf];
  if (dataId !== undefined)
    return { dataId, sandboxName: at.name, sandbox: pausedSandbox(cache.sandbox(keyOf(at)), cache) };
  const podUid = capturedPodUid(checkpoint);
  const sourceFrom = (sandbox: Sandbox | undefined, pod: Pod | undefined): Source =>
    podUid === undefined
      ? (storedSource(sandbox, cache) ?? sourceOf(checkpoint, { spec, sandbox, pod }, { cache, departures }))
      : startedSource({ sandboxName: at.name, podUid }, sandbox, pod);
  const cached = sourceFrom(cache.sandbox(keyOf(at)), cache.pod(keyOf(at)));
  const capture = captures.get(uid);
  // A running capture is abandoned only if its Pod has certainly ended: the cache may be older than the capture.
  const mayAbandon = capture?.state === "running" && podUid !== undefined;
  const isOver = !isUnfinished(checkpoint) || deletionTimestamp !== undefined || capture !== undefined;
  if (!("problem" in cached) || (isOver && !mayAbandon)) return cached;
  // The client may have seen the sandbox become ready before this cache did.
  const [sandbox, pod] = await Promise.all([informers.sandboxes.resource.find(at), informers.pods.resource.find(at)]);
  return sourceFrom(sandbox, pod);
}

/** The unfinished checkpoint that comes before this one: a Pod is captured by one checkpoint at a time. */
function earlierCaptureOf(
  checkpoint: Checkpoint,
  source: Source,
  { cache, captures }: CheckpointDependencies,
): Checkpoint | undefined {
  if (capturedPodUid(checkpoint) !== undefined || !("pod" in source || "problem" in source)) return undefined;
  const { uid, namespace } = checkpoint.metadata;
  const { sandboxName, podName } = checkpoint.spec;
  const key = `${namespace}/${sandboxName ?? podName ?? ""}`;
  const pod = "pod" in source ? source.pod : cache.pod(key);
  const capturingUid = pod && captures.ofPod(pod.metadata.uid);
  if (capturingUid === uid) return undefined;
  // The entry of a checkpoint that has just ended may still be known.
  const started = capturingUid === undefined ? undefined : cache.checkpointByUid(capturingUid);
  return started !== undefined && isUnfinished(started) ? started : earlierOf(checkpoint, cache.checkpointsOf(key));
}

/** A paused sandbox has no Pod, but its claims. */
function pausedSandbox(sandbox: Sandbox | undefined, cache: CheckpointDependencies["cache"]): SandboxRef | undefined {
  return (
    sandbox && { ...sandboxRef(sandbox), claims: claimsOfSandbox(sandbox, resolveTemplate(sandbox, cache), undefined) }
  );
}

/** The data of a paused sandbox. A sandbox without any, by `pauseStrategy.type: Stop`, has only its volumes. */
function storedSource(sandbox: Sandbox | undefined, cache: CheckpointDependencies["cache"]): Source | undefined {
  if (sandbox?.status?.phase !== "Paused") return undefined;
  const { name, uid } = sandbox.metadata;
  const pause = pauseCheckpointOf(sandbox, cache.checkpointsOwnedBy(uid), pendingRollback(sandbox));
  if (pause !== undefined && isCloneable(pause))
    return { dataId: dataIdOf(pause), sandboxName: name, sandbox: pausedSandbox(sandbox, cache) };
  const reason = findCondition(sandbox.status.conditions, "SandboxPaused")?.reason;
  const wasKept = reason === "SnapshotPauseSucceed" || reason === "CheckpointSucceeded";
  const why = wasKept ? "the checkpoint of its pause does not exist" : "its pause kept no memory and no files";
  return problem("SandboxNotReady", `the sandbox ${name} is paused, and ${why}`);
}

/**
 * The source of a checkpoint that has not started. It needs a running Pod that is ready, by the condition of the Pod or of the
 * Sandbox: the Sandbox becomes ready when the cell responds, before the kubelet's first probe.
 */
function sourceOf(
  checkpoint: Checkpoint,
  { spec, sandbox, pod }: { spec: ResolvedCheckpointSpec; sandbox: Sandbox | undefined; pod: Pod | undefined },
  { cache, departures }: Pick<CheckpointDependencies, "cache" | "departures">,
): Source {
  const { sandboxName: name } = spec;
  const temporary = sandbox !== undefined && isGoingToStart(sandbox) ? { isTemporary: true as const } : {};
  if (pod === undefined || sandbox === undefined) {
    return { ...problem("NotFound", `the namespace has no sandbox ${name} with a Pod`), ...temporary };
  }
  if (controllerOf(pod)?.uid !== sandbox.metadata.uid) {
    return problem("SandboxNotReady", `the Pod ${name} does not belong to the sandbox ${name}`);
  }
  // The cell of a disrupted sandbox holds its end until this checkpoint has captured it, whatever probes of its program say.
  const isOfEnd = isHeld(pod) || isOfDisruption(checkpoint, { sandbox, pod }, departures);
  if (isPauseCheckpoint(checkpoint) && isOfEnd) return { sandbox, pod };
  const state = stateOf(pod);
  if (state !== "Running")
    return { ...problem("SandboxNotReady", `the Pod ${name} is ${state}, not Running`), ...temporary };
  return temporaryProblem(sandbox, pod, cache) ?? { sandbox, pod };
}

/** Whether a sandbox starts, and nothing has stopped that. */
function isGoingToStart(sandbox: Sandbox): boolean {
  const isStalled = findCondition(sandbox.status?.conditions, "Stalled")?.status === "True";
  return sandboxState(sandbox).is === "starting" && !isStartRefused(sandbox) && !isStalled;
}

/** Why a running Pod cannot be captured yet. */
function temporaryProblem(sandbox: Sandbox, pod: Pod, cache: CheckpointDependencies["cache"]): Source | undefined {
  const { name } = sandbox.metadata;
  if (isHeldByPause(sandbox, pod, cache))
    return { ...problem("SandboxNotReady", `the sandbox ${name} is being paused`), isTemporary: true };
  const ready = findCondition(sandbox.status?.conditions, "Ready");
  if (ready?.status !== "True" && !isPodReady(pod)) {
    const why = `the sandbox ${name} is not Ready: ${ready?.message ?? "it has not responded yet"}`;
    return { ...problem("SandboxNotReady", why), isTemporary: true };
  }
  return undefined;
}

/** Whether a pause has captured the Pod, which the status of the sandbox does not report yet. */
function isHeldByPause(
  { metadata, spec }: Sandbox,
  pod: Pod,
  { checkpointsOwnedBy }: CheckpointDependencies["cache"],
): boolean {
  const isOfPod = (one: Checkpoint) => isPauseCheckpoint(one) && capturedPodUid(one) === pod.metadata.uid;
  return spec.paused === true && checkpointsOwnedBy(metadata.uid).some((one) => isOfPod(one) && isCloneable(one));
}

/** Whether a checkpoint is the one that the controllers take of a Pod that others end. Neither labels nor names make it one. */
export function isOfDisruption(
  { metadata, spec }: Checkpoint,
  source: Source,
  departures: Pick<CheckpointDependencies["departures"], "leaves">,
): boolean {
  if (!("pod" in source) || spec.keepRunning !== false) return false;
  const { sandbox, pod } = source;
  const isOwn = controllerOf({ metadata })?.uid === sandbox.metadata.uid;
  const isLeft = isSaved(pod) && departures.leaves(pod).leaving;
  return isOwn && (isHeld(pod) || isLeft) && metadata.name === disruptionCheckpointName(sandbox);
}

function isHeld(pod: Pod): boolean {
  return isSaved(pod) && isDisrupted(pod);
}

function isSaved(pod: Pod): boolean {
  return disruptionPolicyOf(pod) !== "End" && pod.status?.phase === "Running";
}

function stateOf({ metadata, status }: Pod): string {
  return metadata.deletionTimestamp === undefined ? (status?.phase ?? "Pending") : "being deleted";
}

/**
 * The source of a started checkpoint: the Pod that it started with, ready or not. That Pod may be paused since the capture.
 * Another Pod of the same name does not count. `pod` is undefined if the API server has none of that name.
 */
function startedSource(
  { sandboxName: name, podUid }: { sandboxName: string; podUid: string },
  sandbox: Sandbox | undefined,
  pod: Pod | undefined,
): Source {
  if (pod?.metadata.uid !== podUid) return { problem: lost(`the Pod ${name} no longer exists`), hasEnded: true };
  if (isEnded(pod)) return { problem: lost(`the Pod ${name} has ended: ${endMessage(pod)}`), hasEnded: true };
  if (sandbox === undefined || controllerOf(pod)?.uid !== sandbox.metadata.uid) {
    return { problem: lost(`the sandbox ${name} no longer exists`) };
  }
  if (pod.status?.phase !== "Running") return { problem: lost(`the Pod ${name} is ${stateOf(pod)}, not Running`) };
  return { sandbox, pod };
}

function lost(why: string): RametError {
  return new RametError("SandboxLost", `The checkpoint was not taken: ${why}`, {
    hint: "Restore an earlier checkpoint or create the sandbox again, then create another Checkpoint",
  });
}

const whenReady = "Create another Checkpoint when the sandbox is Ready";

function problem(code: "NotFound" | "SandboxNotReady", why: string): { problem: RametError } {
  return { problem: new RametError(code, `The checkpoint was not taken: ${why}`, { hint: whenReady }) };
}
