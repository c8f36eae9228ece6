import type { Pod } from "../../api/schema/pod.ts";
import type { SandboxStatus } from "../../api/kinds/sandbox.ts";
import { findCondition } from "../../kube/conditions.ts";
import { notYet } from "./plan-rollback.ts";
import { planStart } from "./plan-start.ts";
import { isEnded } from "../common/pod-facts.ts";
import type { RollbackUnderWay } from "./rollback.ts";
import { refused, withRolledBack } from "./rollback-status.ts";
import type { SandboxPlan, SandboxState } from "./state.ts";
import { changed, ended, failed } from "./status.ts";

/** A rollback that has begun: the Pod makes room, and another one is restored as a resume restores one. */
export function planRollingBack(state: SandboxState, underWay: RollbackUnderWay): SandboxPlan {
  const { pod } = state;
  const isReplaced = pod !== undefined && pod.metadata.uid === underWay.replacedPodUid;
  if (!isReplaced || pod.metadata.deletionTimestamp !== undefined)
    return withOutcome(state, planStart(state), underWay);
  const obstacle = obstacleTo(state, underWay);
  if (obstacle !== undefined) return { actions: [], status: withdrawn(state, pod, underWay, obstacle) };
  // One that is being taken of this Pod was asked for first, and would be lost with it.
  if (state.otherCheckpoint !== undefined && !isEnded(pod)) return { actions: [] };
  return { actions: [{ do: "deletePod", pod }] };
}

/** What has become impossible since the rollback began, and while nothing was lost yet. */
function obstacleTo({ template, origin }: SandboxState, { checkpointId }: RollbackUnderWay) {
  if ("problem" in template) return template.problem;
  if (origin.kind === "impossible") return origin.error;
  return origin.kind === "checkpoint" ? undefined : notYet(checkpointId);
}

/** Back to how it was. Only a Pod in which the sandbox has answered is one that it can go on in. */
function withdrawn(state: SandboxState, pod: Pod, { request }: RollbackUnderWay, error: Obstacle): SandboxStatus {
  const before = (): SandboxStatus => {
    if (isEnded(pod)) return ended(state, pod);
    return pod.metadata.uid === state.sandbox.status?.podInfo?.podUID
      ? changed(state, "Running", {})
      : failed(state, error);
  };
  return refused(state, before(), { request, error });
}

type Obstacle = NonNullable<ReturnType<typeof obstacleTo>>;

/** The status of a start, with what it means for the rollback. */
function withOutcome(state: SandboxState, plan: SandboxPlan, { request, checkpointId }: RollbackUnderWay): SandboxPlan {
  const { status } = plan;
  if (status === undefined || status.phase === "Resuming") return plan;
  const answered = { ...status, ramet: { ...status.ramet, rollback: { request } } };
  if (status.phase !== "Running") {
    const { reason = "Internal", message = "" } = findCondition(status.conditions, "Ready") ?? {};
    return { ...plan, status: withRolledBack(state, answered, { status: "False", reason, message }) };
  }
  const message = `It goes on from the checkpoint ${checkpointId}`;
  const conditions = (status.conditions ?? []).filter(({ type }) => type !== "SandboxResumed");
  const restored = { ...answered, conditions, ramet: { ...answered.ramet, restoredFrom: checkpointId } };
  return { ...plan, status: withRolledBack(state, restored, { status: "True", reason: "Succeeded", message }) };
}
