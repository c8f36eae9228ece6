import type { Pod } from "../../api/schema/pod.ts";
import type { PodTemplateSpec } from "../../api/schema/pod-template.ts";
import { cellRuns, isEnded } from "../common/pod-facts.ts";
import { refused, withRolledBack } from "./rollback-status.ts";
import type { CloneSource, SandboxPlan, SandboxState, StartOutcome } from "./state.ts";
import { running } from "./status.ts";

export interface SwapWish {
  pod: Pod;
  template: PodTemplateSpec;
  source: CloneSource;
  /** The digest of the request that is answered by this. */
  request: string;
}

/** The Pod in which the sandbox runs, and whose cell can have something else run there. */
export function swappable({ sandbox, pod, swap }: SandboxState): Pod | undefined {
  const { phase, podInfo } = sandbox.status ?? {};
  if (phase !== "Running" || pod === undefined || pod.metadata.uid !== podInfo?.podUID) return undefined;
  if (pod.metadata.deletionTimestamp !== undefined || isEnded(pod) || !cellRuns(pod)) return undefined;
  // The cell of an earlier release does not know how.
  const isUnknown = swap?.state === "failed" && swap.error.code === "NotFound";
  return isUnknown ? undefined : pod;
}

/**
 * Has the cell put a checkpoint in the place of what runs. No status says that it has begun: until it is done nothing has
 * changed, and whoever asked looks for the answer to the request.
 */
export function planSwap(state: SandboxState, plan: SandboxPlan, wish: SwapWish): SandboxPlan {
  const { swap } = state;
  if (swap === undefined) return { ...plan, actions: [...plan.actions, { do: "swapSandbox", ...wish }] };
  if (swap.state === "done") return { actions: plan.actions, status: swapped(state, swap.value, wish) };
  if (swap.state === "running") return plan;
  const status = plan.status ?? state.sandbox.status ?? {};
  return { ...plan, status: refused(state, status, { request: wish.request, error: swap.error }) };
}

function swapped(state: SandboxState, outcome: StartOutcome, { pod, source, request }: SwapWish) {
  const status = running(state, pod, outcome);
  const answered = { ...status, ramet: { ...status.ramet, rollback: { request } } };
  const message = `It goes on from the checkpoint ${source.handle.checkpointId}`;
  return withRolledBack(state, answered, { status: "True", reason: "Succeeded", message });
}
