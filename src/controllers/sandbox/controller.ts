import type { RametSandboxStatus, Sandbox, SandboxStatus } from "../../api/kinds/sandbox.ts";
import { sealedAnnotations } from "../../api/names/init-request.ts";
import { labels } from "../../api/names/labels.ts";
import { group } from "../../api/schema/kind.ts";
import { storeSpeed } from "../../api/state/checkpoint.ts";
import { problemOf } from "../../api/state/problem.ts";
import { sandboxRef } from "../../backends/runtime.ts";
import type { Clock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { controllerKeys, type ControllerWatch, ownKey, type ReconcileResult, watching } from "../../kube/controller.ts";
import { controllerOf, keyOf, nameOfKey } from "../../kube/object.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import { StatusWriter } from "../../kube/status-writer.ts";
import { sandboxKeysOfCheckpoint, sandboxKeysOfSnapshot, sandboxKeysOfTemplate } from "../cluster/cache.ts";
import { Attempts } from "../cluster/attempts.ts";
import { ImageLookups } from "../images/image-lookups.ts";
import { type Controller, type ControllerParts, RequeueSource } from "../cluster/controller-parts.ts";
import { isUnderWay } from "../cluster/pause-checkpoint.ts";
import { applyAction } from "./apply.ts";
import { isCellAction } from "./cell-actions.ts";
import { CellCalls } from "./cell-calls.ts";
import { CredentialValues } from "./credential-values.ts";
import { FormerPods } from "./former-pods.ts";
import { gather } from "./gather.ts";
import { disruptionMetrics } from "./metrics.ts";
import { Namespaces } from "./namespaces.ts";
import { NodeTurns } from "./node-turns.ts";
import { NewPods } from "./new-pods.ts";
import { intendedEnd, planUnsaved } from "./plan-disruption.ts";
import { removedMilliseconds } from "./plan-lost.ts";
import { planSandbox } from "./plan.ts";
import { neverStarted } from "./plan-rollback.ts";
import { withRefusedCheckpoint } from "./plan-scheduled-checkpoint.ts";
import type { SandboxDependencies } from "./dependencies.ts";
import type { SandboxAction, SandboxPlan, SandboxState } from "./state.ts";
import { notReady, notStartable } from "./status.ts";

/** The informers of the Sandbox controller, and the sandboxes that each change requeues. */
export function sandboxWatches({ informers, cache, sandboxWrites }: SandboxDependencies): ControllerWatch[] {
  return [
    watching(informers.sandboxes, ownKey, (sandbox) => sandboxWrites.isSettled(sandbox)),
    watching(informers.namespaces, ({ metadata }) => cache.sandboxesIn(metadata.name).map(ownKeyOf)),
    watching(informers.pods, controllerKeys("Sandbox", group)),
    watching(informers.checkpoints, (checkpoint) => sandboxKeysOfCheckpoint(cache, checkpoint)),
    watching(informers.templates, (template) => sandboxKeysOfTemplate(cache, template)),
    watching(informers.snapshots, (snapshot) => sandboxKeysOfSnapshot(cache, snapshot)),
  ];
}

const ownKeyOf = ({ metadata }: Sandbox) => keyOf(metadata);

/**
 * Reconciles one sandbox. After a write it plans again immediately, from the written object, so the informer's event for the
 * write needs no further reconcile.
 */
export async function reconcileSandbox(key: string, dependencies: SandboxDependencies): Promise<ReconcileResult> {
  const { cache, calls, sandboxWrites } = dependencies;
  await deleteOrphan(key, cache.sandbox(key), dependencies);
  for (let round = 1; ; round++) {
    const found = latest(key, dependencies);
    if (found === undefined) {
      calls.forget(key);
      dependencies.turns.forget(key);
      dependencies.formerPods.forget(key);
      return;
    }
    const sandbox = await withSealedRequest(found, dependencies);
    const state = await gather(sandbox, dependencies);
    const plan = dependencies.turns.plan(state, planSandbox);
    calls.settle(state, cache.sandbox(key)?.status?.phase);
    await Promise.all([applyPlan(state, plan, dependencies), createPodOfResume(state, plan, dependencies)]);
    const isWritten = latest(key, dependencies)?.metadata.resourceVersion !== sandbox.metadata.resourceVersion;
    if (!isWritten && round > 1) sandboxWrites.settle(sandbox);
    if (!isWritten || round === maxRounds || !plan.actions.every(isVisibleImmediately)) return plan;
  }
}

/** A sandbox that changes more often is being changed by others too. */
const maxRounds = 3;

/** Replaces variables that a client has set in plain text: everyone who can list Sandboxes, such as a gateway, reads these. */
async function withSealedRequest(
  sandbox: Sandbox,
  { seal, informers, sandboxWrites }: SandboxDependencies,
): Promise<Sandbox> {
  const { uid, resourceVersion, deletionTimestamp } = sandbox.metadata;
  const annotations = deletionTimestamp === undefined ? sealedAnnotations(sandbox, seal) : undefined;
  if (annotations === undefined) return sandbox;
  // Fails with a conflict if the request has changed since.
  const patch = { metadata: { uid, resourceVersion, annotations } };
  return sandboxWrites.write(sandbox, () => informers.sandboxes.resource.mergePatch(sandbox.metadata, patch));
}

function latest(key: string, { cache, sandboxWrites }: SandboxDependencies): Sandbox | undefined {
  const cached = cache.sandbox(key);
  return cached && sandboxWrites.latest(cached);
}

/** Whether the next round sees the result of the action. The results of all others arrive with the informer. */
function isVisibleImmediately(action: SandboxAction): boolean {
  return isCellAction(action) || action.do === "addFinalizer" || action.do === "createPod";
}

async function applyPlan(state: SandboxState, plan: SandboxPlan, dependencies: SandboxDependencies): Promise<void> {
  if (plan.isOfUnclaimed === true && plan.status !== undefined)
    await writeStatus(state.sandbox, plan.status, dependencies, [labels.sandboxClaimed]);
  const outcomes = await Promise.allSettled(
    plan.actions.map((action) => applyAction(state.sandbox, action, dependencies)),
  );
  const errorsOf = (isConcerned: (action: SandboxAction["do"] | undefined) => boolean) =>
    outcomes.flatMap((one, at) =>
      one.status === "rejected" && isConcerned(plan.actions[at]?.do) ? [RametError.from(one.reason)] : [],
    );
  const [podError] = errorsOf((action) => action === "createPod");
  if (podError !== undefined) await reportPodError(state, podError, dependencies);
  const [failure] = errorsOf((action) => action !== "createPod" && action !== "createAutomaticCheckpoint");
  if (failure !== undefined) {
    const unsaved = planUnsaved(state, plan, failure);
    if (unsaved === undefined) throw failure;
    return applyPlan(state, unsaved, dependencies);
  }
  const [uncaptured] = errorsOf((action) => action === "createAutomaticCheckpoint");
  const isRefused = uncaptured?.retryable === false;
  await reportPlan(state, isRefused ? withRefusedCheckpoint(state, plan, uncaptured) : plan, dependencies);
  if (uncaptured !== undefined && !isRefused) throw uncaptured;
}

async function reportPlan(state: SandboxState, plan: SandboxPlan, dependencies: SandboxDependencies): Promise<void> {
  if (plan.status === undefined) return;
  await writeStatus(state.sandbox, plan.status, dependencies);
  const disruption = plan.status.ramet?.disruption;
  if (disruption !== undefined && hasNewOutcome(state.sandbox, disruption)) dependencies.disrupted(disruption);
  for (const transition of plan.transitions ?? []) dependencies.events.record(state.sandbox, transition);
}

type Disruption = NonNullable<RametSandboxStatus["disruption"]>;

function hasNewOutcome({ status }: Sandbox, { outcome, podUID }: Disruption): boolean {
  const isOver = outcome !== "Withdrawn" && !isUnderWay({ outcome });
  const before = status?.ramet?.disruption;
  return isOver && (outcome !== before?.outcome || podUID !== before.podUID);
}

/**
 * Creates the Pod of a resume while the status of the resume is written, because each write waits for the disk of etcd. The next round
 * finds the Pod, or creates it and reports why it cannot.
 */
async function createPodOfResume(
  { sandbox }: SandboxState,
  { status }: SandboxPlan,
  dependencies: SandboxDependencies,
): Promise<void> {
  if (sandbox.status?.phase !== "Paused" || status?.phase !== "Resuming") return;
  const resuming = { ...sandbox, status };
  const { actions } = planSandbox(await gather(resuming, dependencies));
  const create = actions.find((action) => action.do === "createPod");
  if (create !== undefined) await applyAction(resuming, create, dependencies).catch(() => undefined);
}

async function writeStatus(
  sandbox: Sandbox,
  status: SandboxStatus,
  { statuses, sandboxWrites }: SandboxDependencies,
  unlessChanged: readonly string[] = [],
): Promise<void> {
  await sandboxWrites.write(sandbox, () => statuses.write(sandbox, status, { unlessChanged }));
}

/** An invalid template fails until it is changed, so that is not retried. All other errors are. */
async function reportPodError(state: SandboxState, reason: unknown, dependencies: SandboxDependencies): Promise<void> {
  const error = RametError.from(reason);
  const note = `The Pod cannot be created: ${error.describe()}`;
  const isFinal = finalErrors.has(error.code);
  const problem = problemOf(error, "The Pod cannot be created");
  const type = "PodCreateFailed";
  const pending = () =>
    error.code === "InvalidArgument" ? notStartable(state, type, problem, note) : notReady(state, type, note, problem);
  const status = isFinal ? neverStarted(state, error) : pending();
  await writeStatus(state.sandbox, status, dependencies);
  dependencies.events.record(state.sandbox, { type: "Warning", reason: type, action: "CreatePod", note });
  if (error.code !== "InvalidArgument" && !isFinal) throw error;
}

/** The data for a new claim is gone, or its StorageClass cannot have the data. */
const finalErrors = new Set<string>(["CheckpointLost", "NeedNotMet"]);

/** Deletes a Pod whose Sandbox no longer exists. A crash can leave one, and not every cluster has a garbage collector. */
async function deleteOrphan(
  key: string,
  sandbox: Sandbox | undefined,
  { cache, informers, runtime }: SandboxDependencies,
): Promise<void> {
  const pod = cache.pod(key);
  const owner = pod && controllerOf(pod);
  if (owner?.kind !== "Sandbox" || owner.uid === sandbox?.metadata.uid) return;
  if (pod === undefined || pod.metadata.deletionTimestamp !== undefined) return;
  const living = await informers.sandboxes.resource.find(nameOfKey(key));
  if (living?.metadata.uid === owner.uid) return;
  const target = sandboxRef({ metadata: { ...pod.metadata, uid: owner.uid } }, pod);
  // Best effort: without an answer, the end is held for a part of the grace period.
  if (intendedEnd(pod).length > 0) void runtime.intendEnd(target).catch(() => undefined);
  await informers.pods.resource.delete(pod.metadata, { uid: pod.metadata.uid });
}

/** The last value for a minute, because it depends on all checkpoints. */
function forAMinute<T>(clock: Clock, compute: () => T): () => T {
  let last: { value: T; at: number } | undefined;
  return () => {
    const now = clock.monotonicMilliseconds();
    if (last === undefined || now >= last.at + 60_000) last = { value: compute(), at: now };
    return last.value;
  };
}

export function sandboxController(parts: ControllerParts): Controller {
  const { informers, clock, random, pullTimeoutMilliseconds } = parts;
  const requeues = new RequeueSource();
  const metrics = parts.metrics && disruptionMetrics(parts.metrics.registry);
  parts.departures.onChange((keys) => {
    for (const key of keys) requeues.enqueue(key);
  });
  parts.departures.onNode((pods) => {
    for (const { metadata } of pods) requeues.enqueue(keyOf(metadata));
  });
  const dependencies: SandboxDependencies = {
    ...parts,
    statuses: new StatusWriter<Sandbox>(informers.sandboxes.resource, { deciding: ["phase", "podInfo.podUID"] }),
    calls: new CellCalls({ clock, random, pods: informers.pods, pullTimeoutMilliseconds, enqueue: requeues.enqueue }),
    credentialValues: new CredentialValues(parts.client, parts.credentialKeys, clock),
    // Also for a sandbox that is deleted meanwhile, with its status.
    unseen: new Attempts({ clock, random, giveUpAfterMilliseconds: removedMilliseconds }),
    turns: new NodeTurns(),
    storeSpeed: forAMinute(clock, () => storeSpeed(informers.checkpoints.store.list())),
    disrupted: metrics?.ended ?? (() => undefined),
    namespaces: new Namespaces(parts.client.resource(coreResources.namespaces), parts.podOptions.nodeCache),
    formerPods: new FormerPods({ pods: informers.pods, nodes: parts.nodes }),
    newPods: new NewPods({ pods: informers.pods, clock, onLost: requeues.enqueue }),
    imageLookups:
      parts.registries && new ImageLookups({ client: parts.client, transport: parts.registries, clock, random }),
    enqueue: requeues.enqueue,
  };
  return {
    name: "sandbox",
    watches: sandboxWatches(dependencies),
    reconcile: (key) => reconcileSandbox(key, dependencies),
    requeues,
    close: () => {
      metrics?.close();
      dependencies.calls.close();
      dependencies.unseen.close();
      dependencies.newPods.close();
      dependencies.imageLookups?.close();
    },
  };
}
