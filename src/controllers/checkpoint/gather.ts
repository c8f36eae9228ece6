import { type Checkpoint, resolveCheckpointSpec, type ResolvedCheckpointSpec } from "../../api/kinds/checkpoint.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { isPodReady, type Pod } from "../../api/schema/pod.ts";
import { RametError } from "../../base/errors.ts";
import { findCondition } from "../../kube/conditions.ts";
import { controllerOf, keyOf } from "../../kube/object.ts";
import { capturedPodUid, checkpointIdOf, isUnfinished } from "../common/pause-checkpoint.ts";
import { endMessage, isEnded } from "../common/pod-facts.ts";
import type { CheckpointDependencies } from "./dependencies.ts";
import type { CheckpointState, Source } from "./state.ts";

/** Reads what a plan needs: from the cache, and where that would have it refuse, from the API server as well. */
export async function gather(checkpoint: Checkpoint, dependencies: CheckpointDependencies): Promise<CheckpointState> {
  const { captures, clock } = dependencies;
  const { uid } = checkpoint.metadata;
  const spec = specOf(checkpoint, dependencies);
  const source = "problem" in spec ? spec : await findSource(checkpoint, spec, dependencies);
  const wasStarted = capturedPodUid(checkpoint) !== undefined;
  return {
    checkpoint,
    checkpointId: checkpoint.status?.checkpointId ?? checkpointIdOf(checkpoint.metadata),
    spec,
    source,
    earlierCapture:
      "problem" in source || wasStarted
        ? undefined
        : earlierCaptureOf(checkpoint, source.pod.metadata.uid, dependencies),
    capture: captures.get(uid),
    now: clock.now(),
  };
}

function specOf(checkpoint: Checkpoint, { cache }: CheckpointDependencies): CheckpointState["spec"] {
  try {
    const { sandboxName, podName } = checkpoint.spec;
    const sandbox = cache.sandbox(`${checkpoint.metadata.namespace}/${sandboxName ?? podName ?? ""}`);
    const template =
      sandbox?.spec.templateRef && cache.template(`${checkpoint.metadata.namespace}/${sandbox.spec.templateRef.name}`);
    return resolveCheckpointSpec(
      checkpoint.spec,
      sandbox?.spec.persistentContents ?? template?.spec.persistentContents,
    );
  } catch (error) {
    return { problem: RametError.from(error) };
  }
}

async function findSource(
  checkpoint: Checkpoint,
  spec: ResolvedCheckpointSpec,
  { cache, informers, captures }: CheckpointDependencies,
): Promise<Source> {
  const { namespace, uid, deletionTimestamp } = checkpoint.metadata;
  const at = { namespace, name: spec.sandboxName };
  const podUid = capturedPodUid(checkpoint);
  const sourceFrom = (sandbox: Sandbox | undefined, pod: Pod | undefined): Source =>
    podUid === undefined ? sourceOf(spec, sandbox, pod) : startedSource({ sandboxName: at.name, podUid }, sandbox, pod);
  const cached = sourceFrom(cache.sandbox(keyOf(at)), cache.pod(keyOf(at)));
  const capture = captures.get(uid);
  // A cut that runs is given up only for a Pod that has certainly ended; a cache may not have seen it begin.
  const mayGiveUp = capture?.state === "running" && podUid !== undefined;
  const isOver = !isUnfinished(checkpoint) || deletionTimestamp !== undefined || capture !== undefined;
  if (!("problem" in cached) || (isOver && !mayGiveUp)) return cached;
  // Whoever asks may have seen the sandbox become ready before this cache did.
  const [sandbox, pod] = await Promise.all([informers.sandboxes.resource.find(at), informers.pods.resource.find(at)]);
  return sourceFrom(sandbox, pod);
}

/** One Pod, one cut at a time. First is whose cut has begun; else the older one, and of two of one second, any but always the same. */
function earlierCaptureOf(
  checkpoint: Checkpoint,
  podUid: string,
  { cache, taking }: CheckpointDependencies,
): Checkpoint | undefined {
  const { uid, namespace } = checkpoint.metadata;
  const taken = taking.get(podUid);
  if (taken === uid) return undefined;
  // The cut of one that has just ended may not have been struck off yet.
  const started = taken === undefined ? undefined : cache.checkpointByUid(taken);
  if (started !== undefined && isUnfinished(started)) return started;
  const { sandboxName, podName } = checkpoint.spec;
  return cache
    .checkpointsOf(`${namespace}/${sandboxName ?? podName ?? ""}`)
    .find((other) => other.metadata.uid !== uid && isUnfinished(other) && isBefore(other, checkpoint));
}

function isBefore(a: Checkpoint, b: Checkpoint): boolean {
  const rank = ({ metadata, status }: Checkpoint): string =>
    `${status?.phase === "Creating" ? 0 : 1} ${metadata.creationTimestamp} ${metadata.uid}`;
  return rank(a) < rank(b);
}

/**
 * What a checkpoint captures. It needs a Pod that runs and is ready: by its own condition, or by the sandbox's, which the
 * cell's answer made true before a kubelet's first probe.
 */
function sourceOf(
  { sandboxName: name }: ResolvedCheckpointSpec,
  sandbox: Sandbox | undefined,
  pod: Pod | undefined,
): Source {
  if (pod === undefined || sandbox === undefined) {
    return problem("NotFound", `there is no sandbox ${name} with a Pod in this namespace`);
  }
  if (controllerOf(pod)?.uid !== sandbox.metadata.uid) {
    return problem("SandboxNotReady", `the Pod ${name} is not that of the sandbox ${name}`);
  }
  const state = stateOf(pod);
  if (state !== "Running") return problem("SandboxNotReady", `the Pod ${name} is ${state}, not Running`);
  const ready = findCondition(sandbox.status?.conditions, "Ready");
  if (ready?.status !== "True" && !isPodReady(pod)) {
    return problem(
      "SandboxNotReady",
      `the sandbox ${name} is not Ready: ${ready?.message ?? "it has not answered yet"}`,
    );
  }
  return { sandbox, pod };
}

function stateOf({ metadata, status }: Pod): string {
  return metadata.deletionTimestamp === undefined ? (status?.phase ?? "Pending") : "being deleted";
}

/**
 * For a checkpoint that was begun: the Pod that it was begun with, ready or not. It may stand still since the cut, and
 * another Pod of its name has nothing to do with it. `pod` absent: the API server has none of that name.
 */
function startedSource(
  { sandboxName: name, podUid }: { sandboxName: string; podUid: string },
  sandbox: Sandbox | undefined,
  pod: Pod | undefined,
): Source {
  if (pod?.metadata.uid !== podUid) return { problem: lost(`the Pod ${name} is gone`), hasEnded: true };
  if (isEnded(pod)) return { problem: lost(`the Pod ${name} has ended: ${endMessage(pod)}`), hasEnded: true };
  if (sandbox === undefined || controllerOf(pod)?.uid !== sandbox.metadata.uid) {
    return { problem: lost(`the sandbox ${name} is gone`) };
  }
  if (pod.status?.phase !== "Running") return { problem: lost(`the Pod ${name} is ${stateOf(pod)}, not Running`) };
  return { sandbox, pod };
}

function lost(why: string): RametError {
  return new RametError("SandboxLost", `The checkpoint was not taken: ${why}`, {
    hint: "Clone what was taken before, or create the sandbox anew; then create another Checkpoint",
  });
}

const whenReady = "Create another Checkpoint when the sandbox is Ready";

function problem(code: "NotFound" | "SandboxNotReady", why: string): Source {
  return { problem: new RametError(code, `The checkpoint was not taken: ${why}`, { hint: whenReady }) };
}
