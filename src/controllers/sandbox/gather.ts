import type { EgressHolder } from "../../api/egress/effective-egress.ts";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, restoreFrom } from "../../api/names/labels.ts";
import { pendingRollback } from "../../api/names/rollback-request.ts";
import { excludedNodes } from "../../api/pod/node-affinity.ts";
import type { PodTemplateSpec } from "../../api/schema/pod-template.ts";
import type { Pod } from "../../api/schema/pod.ts";
import type { Clock } from "../../base/clock.ts";
import { findCondition } from "../../kube/conditions.ts";
import { controllerOf, keyOf } from "../../kube/object.ts";
import { termsOfVolumes } from "../../kube/volumes/volumes.ts";
import { desiredEgress, type DesiredEgress, egressTemplate } from "../origin/egress.ts";
import { type FoundOrigin, type Origin, originFrom, originOfText } from "../origin/origin.ts";
import { isStarting } from "../../api/state/sandbox.ts";
import { isNodeReady } from "../../api/state/node.ts";
import { placementOf, tolerationsOf } from "../../api/state/target.ts";
import { isAutomatic, isCloneable, isPauseCheckpoint } from "../../api/state/checkpoint.ts";
import { capturedPodUid, isUnderWay, pauseCheckpointOf } from "../cluster/pause-checkpoint.ts";
import type { Departure } from "../cluster/departures.ts";
import { pendingMilliseconds, targetOf } from "../cluster/move-facts.ts";
import { fitsNowhere } from "../cluster/plan-moves.ts";
import { isDisrupted, pullProblem, unscheduledWords } from "../cluster/pod-facts.ts";
import { anyNode } from "../nodes/plan-cpus.ts";
import { resolveTemplate } from "../origin/resolve-template.ts";
import { noRestoredVolumes } from "../volumes/restored-volumes.ts";
import { wantedCredentials } from "./credentials.ts";
import { otherCheckpoint, ownedCheckpoints } from "./gather-checkpoints.ts";
import { gatherIgnored } from "./gather-ignored.ts";
import { gatherVolumes, lostClaims } from "./gather-volumes.ts";
import { isIgnored } from "./plan-disruption.ts";
import { pauseLost, templateChanged } from "./plan-paused.ts";
import { type PodImage, podImage } from "./pod-image.ts";
import { gatherRollback, rollbackUnderWay } from "./rollback.ts";
import type { SandboxDependencies } from "./dependencies.ts";
import type { SandboxState } from "./state.ts";

/** Reads the state for a plan from the cache. A decision that would end a sandbox is confirmed with the API server. */
export async function gather(sandbox: Sandbox, dependencies: SandboxDependencies): Promise<SandboxState> {
  const { cache, calls, clock, unseen, formerPods } = dependencies;
  const { pod, foreignPod } = await findPod(sandbox, dependencies);
  const checkpoints = await ownedCheckpoints(sandbox, pod, dependencies);
  const { checkpoint, origin: findOrigin } = await lookForOrigin(sandbox, checkpoints, dependencies);
  const originCheckpoint = checkpoint ?? pausedIn(sandbox, checkpoints);
  const template = resolveTemplate(sandbox, cache, checkpoint);
  const resolved = "problem" in template ? undefined : template.template;
  const origin = findOrigin(resolved);
  const parts = { pod, template: resolved, origin, checkpoint: originCheckpoint };
  const image = gatherImage(sandbox, parts, dependencies);
  const all = checkpoints.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  const owned = all.filter(isPauseCheckpoint);
  const pending = pendingRollback(sandbox);
  const pauseCheckpoint = pauseCheckpointOf(sandbox, all, pending);
  const isOfRollback = ({ metadata }: Checkpoint) =>
    pending !== undefined && metadata.annotations?.[annotations.rollbackDigest] === pending;
  const cpus = cpusFor(sandbox, origin, dependencies);
  const egress = await gatherEgress(sandbox, egressTemplate(template, pod), dependencies);
  return {
    ...calls.of(sandbox, pod),
    sandbox,
    pod,
    foreignPod,
    template,
    ...(pod !== undefined || "problem" in template
      ? { origin, volumes: noRestoredVolumes }
      : await gatherVolumes(sandbox, { origin, template, checkpoint: originCheckpoint }, dependencies)),
    lostClaims: pod === undefined ? await lostClaims(sandbox, dependencies) : [],
    image,
    cpus,
    rollback: await rollbackOf(pod, gatherRollback(sandbox, { template, pod }, dependencies), clock),
    egress,
    credentials: wantedCredentials(sandbox, resolved, dependencies),
    pauseCheckpoint,
    rolledBackPause: owned.find(isOfRollback),
    orphans: owned.filter((one) => one !== pauseCheckpoint && !isOfRollback(one)),
    automatic: all.filter(isAutomatic),
    otherCheckpoint: otherCheckpoint(cache.checkpointsOf(keyOf(sandbox.metadata))),
    departure: await departureOf(sandbox, pod, dependencies),
    isNodeSilent: isNodeSilent(pod, dependencies),
    ...cellsOf(sandbox, { pod, pauseCheckpoint }, formerPods),
    removedStopped: new Set(
      (sandbox.status?.ramet?.removedPods ?? [])
        .map(({ podUID }) => podUID)
        .filter((uid) => unseen.get(uid)?.state === "done"),
    ),
    noNode: await noNodeFor(sandbox, { pod, cpus }, dependencies),
    avoidsInVain: avoidsInVain(sandbox, { pod, template: resolved, cpus }, dependencies),
    leavingNodes:
      resolved === undefined || pod !== undefined
        ? []
        : dependencies.departures.avoided(sandbox, tolerationsOf(resolved)),
    stoppedBy: stoppedBy(pod, cache.checkpointsOf(keyOf(sandbox.metadata))),
    ignored: gatherIgnored(sandbox, { template, pod }, dependencies),
    pullTimeoutInMilliseconds: gatherPull(sandbox, pod, image, dependencies),
    slowInMilliseconds: calls.slowInMilliseconds(sandbox),
    now: clock.now(),
  };
}

/** A node that is gone is known to have ended its Pods. */
function isNodeSilent(pod: Pod | undefined, { nodes }: Pick<SandboxDependencies, "nodes">): boolean {
  const node = nodes.store.get(pod?.spec.nodeName ?? "");
  return node !== undefined && !isNodeReady(node);
}

function cellsOf(
  sandbox: Sandbox,
  { pod, pauseCheckpoint: held }: Pick<SandboxState, "pod" | "pauseCheckpoint">,
  formerPods: SandboxDependencies["formerPods"],
): Pick<SandboxState, "formerCells" | "startingCell"> {
  if (pod !== undefined) return { startingCell: formerPods.startingIn(pod) };
  const isCaptured = held !== undefined && !isAutomatic(held) && isCloneable(held);
  return { formerCells: formerPods.of(sandbox, isCaptured ? capturedPodUid(held) : undefined) };
}

/**
 * A sandbox whose Pod is being ended is captured now, so nobody asks where it may go. For any other one the answer may need volumes: a
 * slow API server keeps nothing else waiting, and the sandbox is planned again when the answer is there.
 */
export async function departureOf(
  sandbox: Sandbox,
  pod: Pod | undefined,
  { departures, clock, enqueue }: Pick<SandboxDependencies, "departures" | "clock" | "enqueue">,
): Promise<Departure | undefined> {
  if (pod !== undefined && isDisrupted(pod) && !isIgnored(sandbox, pod)) return undefined;
  const late: Departure = { turn: "later" };
  return answerOr(late, departures.of(sandbox, pod), {
    clock,
    onLate: () => {
      enqueue(keyOf(sandbox.metadata));
    },
  });
}

/** The rollback that a user requests. If that cannot be read now, a sandbox whose Pod is being ended is captured before it is answered. */
export function rollbackOf(
  pod: Pod | undefined,
  asked: Promise<SandboxState["rollback"]>,
  clock: Clock,
): Promise<SandboxState["rollback"]> {
  return pod !== undefined && isDisrupted(pod) ? answerOr(undefined, asked, { clock }) : asked;
}

const answerMilliseconds = 1_000;

/** The answer, or `late` if there is none within a second. @param onLate called when the answer is there after all */
async function answerOr<T>(
  late: T,
  asked: Promise<T>,
  { clock, onLate = () => undefined }: { clock: Clock; onLate?: () => void },
): Promise<T> {
  const answer = asked.catch(() => late);
  const isOver = Promise.withResolvers<T>();
  const cancel = clock.schedule(answerMilliseconds, () => {
    isOver.resolve(late);
    void answer.then(onLate);
  });
  const first = await Promise.race([answer, isOver.promise]);
  cancel();
  return first;
}

/** The checkpoint that has ended its source. A pause does not report one as an end. */
function stoppedBy(pod: Pod | undefined, checkpoints: readonly Checkpoint[]): string | undefined {
  const ended = checkpoints.find(
    (one) =>
      one.spec.keepRunning === false &&
      one.status?.phase === "Succeeded" &&
      !isPauseCheckpoint(one) &&
      capturedPodUid(one) === pod?.metadata.uid,
  );
  return ended?.metadata.name;
}

function cpusFor({ status }: Sandbox, origin: Origin, { nodeCpus }: SandboxDependencies): SandboxState["cpus"] {
  return origin.kind === "checkpoint" ? nodeCpus.plan(origin.source.parts, status?.ramet?.unsuitedNodes) : anyNode;
}

/** Whether its Pod was to avoid a node that leaves, fits nowhere else, and the node stays after all. */
function avoidsInVain(
  { status }: Sandbox,
  { pod, template, cpus }: Pick<SandboxState, "pod" | "cpus"> & { template: PodTemplateSpec | undefined },
  { departures }: SandboxDependencies,
): boolean {
  if (pod === undefined || !isUnderWay(status?.ramet?.disruption) || unscheduledWords(pod) === undefined) return false;
  const needed = new Set([...excludedNodes(template?.spec["affinity"]), ...(cpus.avoided?.names ?? [])]);
  const avoided = excludedNodes(pod.spec["affinity"]).filter((name) => !needed.has(name));
  return departures.avoidsInVain(pod, avoided);
}

/** Why no node can take the Pod that continues a sandbox. Only asked when the scheduler has found none. */
async function noNodeFor(
  { status }: Sandbox,
  { pod, cpus: { lacking } }: Pick<SandboxState, "pod" | "cpus">,
  { nodes, client, clock }: SandboxDependencies,
): Promise<string | undefined> {
  if (pod === undefined || !isUnderWay(status?.ramet?.disruption) || unscheduledWords(pod) === undefined)
    return undefined;
  // Without an answer the Pod waits, as for an autoscaler.
  const terms = await termsOfVolumes(pod, client).catch(() => []);
  const targets = nodes.store.list().map((node) => ({
    ...targetOf(node, []),
    lacksCpu: lacking.includes(node.metadata.name),
    isNew: clock.now().getTime() < Date.parse(node.metadata.creationTimestamp ?? "") + pendingMilliseconds,
  }));
  return fitsNowhere(placementOf(pod, {}, terms), targets);
}

/** Only for a sandbox that is about to get a Pod: nothing else asks a registry. */
function gatherImage(
  sandbox: Sandbox,
  { pod, template, origin, checkpoint }: NewPodParts,
  dependencies: SandboxDependencies,
): PodImage {
  const { deletionTimestamp } = sandbox.metadata;
  if (pod !== undefined || template === undefined || !isStarting(sandbox) || deletionTimestamp !== undefined)
    return { state: "unresolved" };
  return podImage(sandbox, { template, origin, checkpoint }, dependencies);
}

/**
 * Sets and builds report that an image cannot be pulled, and try again. A sandbox of a user waits, as a Pod does, because its image may
 * still be pushed.
 */
function gatherPull(
  sandbox: Sandbox,
  pod: Pod | undefined,
  image: PodImage,
  { calls }: SandboxDependencies,
): number | undefined {
  const kind = controllerOf(sandbox)?.kind;
  const isStuck = image.state === "unknown" || (pod !== undefined && pullProblem(pod) !== undefined);
  return calls.pullTimeoutInMilliseconds(sandbox, isStuck && (kind === "SandboxSet" || kind === "NamedSnapshot"));
}

interface NewPodParts {
  pod: Pod | undefined;
  template: PodTemplateSpec | undefined;
  origin: Origin;
  checkpoint: Checkpoint | undefined;
}

function pausedIn(sandbox: Sandbox, owned: readonly Checkpoint[]): Checkpoint | undefined {
  return sandbox.status?.phase === "Resuming" ? pauseCheckpointOf(sandbox, owned) : undefined;
}

async function gatherEgress(
  sandbox: Sandbox,
  template: EgressHolder | undefined,
  { informers: { namespaces }, podOptions }: SandboxDependencies,
): Promise<DesiredEgress> {
  const name = sandbox.metadata.namespace;
  // The cache may lag behind the creation of the namespace.
  const namespace = namespaces.store.get(name) ?? (await namespaces.resource.find({ name }));
  return desiredEgress({ namespace: namespace?.metadata, template, sandbox }, podOptions);
}

async function findPod(
  { metadata, status }: Sandbox,
  { cache, newPods, informers }: SandboxDependencies,
): Promise<Pick<SandboxState, "pod" | "foreignPod">> {
  const isOwn = (pod: Pod): boolean => controllerOf(pod)?.uid === metadata.uid;
  const cached = cache.pod(keyOf(metadata));
  const own = cached !== undefined && isOwn(cached) ? cached : newPods.get(metadata.uid);
  if (own !== undefined) return { pod: own, foreignPod: undefined };
  if (status?.phase === "Running") {
    // A missing Pod ends the sandbox, and the cache may lag behind.
    const found = await informers.pods.resource.find(metadata);
    if (found !== undefined && isOwn(found)) return { pod: found, foreignPod: undefined };
  }
  return { pod: undefined, foreignPod: cached };
}

/** The checkpoint that a sandbox starts from. */
async function lookForOrigin(
  sandbox: Sandbox,
  owned: readonly Checkpoint[],
  dependencies: SandboxDependencies,
): Promise<FoundOrigin> {
  const phase = sandbox.status?.phase;
  const { namespace } = sandbox.metadata;
  const rollback = rollbackUnderWay(sandbox);
  if (rollback !== undefined) return originOfText(namespace, () => rollback.checkpointId, dependencies);
  if (phase === "Resuming") return { origin: (template) => resumeOrigin(sandbox, { template, owned }, dependencies) };
  if (phase !== undefined && phase !== "Pending") return { origin: () => ({ kind: "new" }) };
  return originOfText(namespace, () => requestedCheckpoint(sandbox, dependencies), dependencies);
}

/** @throws RametError `InvalidArgument` when two annotations differ */
function requestedCheckpoint(sandbox: Sandbox, { cache }: SandboxDependencies): string | undefined {
  // A named snapshot was resolved when the sandbox started. It may have moved since.
  const resolved = sandbox.metadata.annotations?.[annotations.resolvedCheckpoint];
  if (resolved !== undefined) return resolved;
  const { template, templateRef } = sandbox.spec;
  const named = templateRef && cache.template(`${sandbox.metadata.namespace}/${templateRef.name}`);
  return restoreFrom(sandbox, template ?? named?.spec.template);
}

function resumeOrigin(
  sandbox: Sandbox,
  { template, owned }: { template: PodTemplateSpec | undefined; owned: readonly Checkpoint[] },
  { backends, engines }: SandboxDependencies,
): Origin {
  const paused = findCondition(sandbox.status?.conditions, "SandboxPaused");
  if (paused?.reason !== "SnapshotPauseSucceed") return { kind: "new" };
  const checkpoint = pauseCheckpointOf(sandbox, owned);
  if (checkpoint === undefined) return { kind: "impossible", error: pauseLost() };
  const origin = originFrom(checkpoint, template, { backends, engines });
  const isChanged = origin.kind === "impossible" && origin.error.code === "TemplateMismatch";
  if (!isChanged) return origin;
  const kept = checkpoint.status?.ramet?.contents?.includes("memory") === true ? "memory" : "files";
  return { kind: "impossible", error: templateChanged(origin.error, kept) };
}
