import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { labels } from "../../api/names/labels.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { delaysPause, isAutomatic, isOrWillBeCaptured, isPauseCheckpoint } from "../../api/state/checkpoint.ts";
import { findCondition } from "../../kube/conditions.ts";
import { controllerOf } from "../../kube/object.ts";
import { lastAutomatic, pauseCheckpointOf } from "../cluster/pause-checkpoint.ts";
import { isEnded } from "../cluster/pod-facts.ts";
import type { SandboxDependencies } from "./dependencies.ts";

/** The checkpoints of its pauses, and its automatic ones. The API server confirms that none holds it, because that ends the sandbox. */
export async function ownedCheckpoints(
  sandbox: Sandbox,
  pod: Pod | undefined,
  { cache, informers: { checkpoints } }: Pick<SandboxDependencies, "cache" | "informers">,
): Promise<readonly Checkpoint[]> {
  const { uid, name, namespace } = sandbox.metadata;
  const cached = cache.checkpointsOwnedBy(uid);
  if (!endsWithout(sandbox, pod, cached)) return cached;
  const { items } = await checkpoints.resource.list({ namespace, labelSelector: `${labels.sandboxName}=${name}` });
  return items.filter((one) => controllerOf(one)?.uid === uid);
}

/** Whether one of its checkpoints is to hold it, and none of these does. */
function endsWithout(sandbox: Sandbox, pod: Pod | undefined, cached: readonly Checkpoint[]): boolean {
  const { phase, ramet } = sandbox.status ?? {};
  if (phase !== "Running") return isResumedWithout(sandbox, cached);
  const isLost = pod === undefined || isEnded(pod);
  return isLost && ramet?.automatic !== undefined && lastAutomatic(sandbox, cached) === undefined;
}

function isResumedWithout(sandbox: Sandbox, cached: readonly Checkpoint[]): boolean {
  const { spec, status } = sandbox;
  const isResumed = status?.phase === "Resuming" || (status?.phase === "Paused" && spec.paused !== true);
  const reason = findCondition(status?.conditions, "SandboxPaused")?.reason;
  const isHeld = reason === "CheckpointSucceeded" || reason === "SnapshotPauseSucceed";
  return isResumed && isHeld && pauseCheckpointOf(sandbox, cached) === undefined;
}

/** One that a pause waits for comes before the waiting ones. */
export function otherCheckpoint(checkpoints: readonly Checkpoint[]): Checkpoint | undefined {
  const others = checkpoints.filter((one) => isOrWillBeCaptured(one) && !isPauseCheckpoint(one));
  return others.find(delaysPause) ?? others.find((one) => !isAutomatic(one)) ?? others[0];
}
