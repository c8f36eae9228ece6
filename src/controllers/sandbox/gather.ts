import type { Checkpoint } from "../../api/checkpoint.ts";
import { RametError } from "../../api/errors.ts";
import { restoreFrom } from "../../api/labels.ts";
import type { Pod } from "../../api/pod.ts";
import type { Sandbox } from "../../api/sandbox.ts";
import { findCondition } from "../../kube/conditions.ts";
import { controllerOf, keyOf } from "../../kube/object.ts";
import { begunWith, isPauseCheckpoint, isUnfinished } from "../pause-checkpoint.ts";
import type { SandboxDependencies } from "./dependencies.ts";
import { pauseLost } from "./plan-paused.ts";
import { originFrom, unknownCheckpoint } from "./origin.ts";
import type { Origin, SandboxState } from "./state.ts";
import { resolveTemplate } from "./template.ts";

/** Reads what a plan needs: from the cache, and where that would have it end a sandbox, from the API server as well. */
export async function gather(sandbox: Sandbox, dependencies: SandboxDependencies): Promise<SandboxState> {
  const { cache, starts, slowStart, clock } = dependencies;
  const { pod, foreignPod } = await findPod(sandbox, dependencies);
  const { checkpoint, origin: findOrigin } = await lookForOrigin(sandbox, dependencies);
  const template = resolveTemplate(sandbox, cache, checkpoint);
  const owned = cache
    .checkpointsOwnedBy(sandbox.metadata.uid)
    .filter((one) => isPauseCheckpoint(one) && one.metadata.deletionTimestamp === undefined);
  const pauseCheckpoint = pauseCheckpointOf(sandbox, owned);
  return {
    sandbox,
    pod,
    foreignPod,
    template,
    origin: findOrigin("problem" in template ? undefined : template.template),
    start: pod && starts.get(pod.metadata.uid),
    pauseCheckpoint,
    leftovers: owned.filter((one) => one !== pauseCheckpoint),
    otherCheckpoint: cache
      .checkpointsOf(keyOf(sandbox.metadata))
      .find((one) => isUnfinished(one) && !isPauseCheckpoint(one)),
    slow: slowStart.millisecondsLeft(sandbox.metadata.uid) === 0,
    now: clock.now(),
  };
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
    // To find nothing here ends the sandbox, so the cache alone is no witness.
    const found = await informers.pods.resource.find(metadata);
    if (found !== undefined && isOwn(found)) return { pod: found, foreignPod: undefined };
  }
  return { pod: undefined, foreignPod: cached };
}

type FindOrigin = (template: Parameters<typeof originFrom>[1]) => Origin;

/** The checkpoint that a sandbox starts from, and, once the template is known, whether it can. */
async function lookForOrigin(
  sandbox: Sandbox,
  dependencies: SandboxDependencies,
): Promise<{ checkpoint?: Checkpoint; origin: FindOrigin }> {
  const phase = sandbox.status?.phase;
  if (phase === "Resuming") return { origin: () => resumeOrigin(sandbox, dependencies) };
  if (phase !== undefined && phase !== "Pending") return { origin: () => ({ kind: "new" }) };
  const { namespace } = sandbox.metadata;
  try {
    const id = wishedCheckpoint(sandbox, dependencies);
    if (id === undefined) return { origin: () => ({ kind: "new" }) };
    const checkpoint = await findCheckpoint(namespace, id, dependencies);
    if (checkpoint !== undefined) return { checkpoint, origin: (template) => originFrom(checkpoint, template) };
    const namesake = dependencies.cache.checkpoint(`${namespace}/${id}`);
    return { origin: () => unknownCheckpoint(namespace, id, namesake) };
  } catch (thrown) {
    const error = RametError.from(thrown);
    if (error.code !== "InvalidArgument") throw error;
    return { origin: () => ({ kind: "impossible", error }) };
  }
}

/** @throws RametError `InvalidArgument` when two annotations differ */
function wishedCheckpoint(sandbox: Sandbox, { cache }: SandboxDependencies): string | undefined {
  const { template, templateRef } = sandbox.spec;
  const named = templateRef && cache.template(`${sandbox.metadata.namespace}/${templateRef.name}`);
  return restoreFrom(sandbox, template ?? named?.spec.template);
}

/** A checkpoint of the same namespace: the namespace is the wall, so no other is ever looked at. */
async function findCheckpoint(
  namespace: string,
  id: string,
  { cache, informers }: SandboxDependencies,
): Promise<Checkpoint | undefined> {
  const cached = cache.checkpointById(namespace, id);
  if (cached?.status?.phase === "Succeeded") return cached;
  // Whoever asks for the clone may have seen what this cache has not: ask before a refusal.
  const { items } = await informers.checkpoints.resource.list({ namespace });
  return items.find(({ status }) => status?.checkpointId === id);
}

function resumeOrigin(sandbox: Sandbox, { cache }: SandboxDependencies): Origin {
  const paused = findCondition(sandbox.status?.conditions, "SandboxPaused");
  if (paused?.reason !== "SnapshotPauseSucceed") return { kind: "new" };
  const checkpoint = pauseCheckpointOf(sandbox, cache.checkpointsOwnedBy(sandbox.metadata.uid));
  if (checkpoint !== undefined) return originFrom(checkpoint, undefined);
  return { kind: "impossible", error: pauseLost() };
}

/** Of the Pod that the sandbox has, or had before its pause; one that came to something goes before one that did not. */
function pauseCheckpointOf({ status }: Sandbox, owned: Checkpoint[]): Checkpoint | undefined {
  const ofThisPod = owned.filter((one) => {
    const podUid = begunWith(one);
    return isPauseCheckpoint(one) && (podUid === undefined || podUid === status?.podInfo?.podUID);
  });
  return ofThisPod.find((one) => one.status?.phase !== "Failed") ?? ofThisPod[0];
}
