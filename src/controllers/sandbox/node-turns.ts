import { checkpointState } from "../../api/state/checkpoint.ts";
import { keyOf } from "../../kube/object.ts";
import type { SandboxPlan, SandboxState } from "./state.ts";

/** More captures at the same time would take the CPU, the memory and the network of a node from its sandboxes. */
const mostOnNode = 2;
/** A capture that takes longer, or a sandbox that nobody reports any more, keeps no other one waiting. */
const longestMilliseconds = 600_000;

/**
 * Limits how many automatic checkpoints are taken at the same time on each node. The status of a sandbox says that it has a turn, so a
 * restarted controller knows it again.
 */
export class NodeTurns {
  /** By the keys of the sandboxes that have one: the node, and when it ends at the latest. */
  readonly #turns = new Map<string, { node: string; endsAt: number }>();

  /** Plans a sandbox, without a new automatic checkpoint if its node has no turn left. Nothing is awaited between the two. */
  plan(state: SandboxState, planFor: (state: SandboxState) => SandboxPlan): SandboxPlan {
    const key = keyOf(state.sandbox.metadata);
    const node = state.pod?.spec.nodeName ?? "";
    const endsAt = endOf(state);
    const hasTurn = endsAt > state.now.getTime();
    if (!hasTurn) this.#turns.delete(key);
    const plan = planFor(state);
    const takes = plan.actions.some((action) => action.do === "createAutomaticCheckpoint");
    if (!takes && !hasTurn) return plan;
    if (!hasTurn && this.#countOn(node, state.now) >= mostOnNode) return planFor({ ...state, hasTurn: false });
    this.#turns.set(key, { node, endsAt: hasTurn ? endsAt : state.now.getTime() + longestMilliseconds });
    return plan;
  }

  forget(key: string): void {
    this.#turns.delete(key);
  }

  #countOn(node: string, now: Date): number {
    return [...this.#turns.values()].filter((one) => one.node === node && one.endsAt > now.getTime()).length;
  }
}

/** When the turn ends at the latest that the status reports; 0: it has ended, also if the status does not say so yet. */
function endOf({ sandbox: { status }, automatic: owned = [] }: SandboxState): number {
  const { outcome, taking, at = "" } = status?.ramet?.automatic ?? {};
  if (status?.phase !== "Running" || outcome !== "Taking") return 0;
  const one = owned.find(({ metadata }) => metadata.name === taking);
  const isOver = one !== undefined && checkpointState(one) !== "unfinished";
  return isOver ? 0 : Date.parse(at) + longestMilliseconds;
}
