import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { keyOf } from "../../kube/object.ts";
import type { SandboxPlan, SandboxState } from "./state.ts";

/** More captures at the same time would take the CPU, the memory and the network of a node from its sandboxes. */
const mostOnNode = 2;

/**
 * Limits how many automatic checkpoints are taken at the same time on each node. The status of a sandbox says that it has a turn, so a
 * restarted controller knows it again.
 */
export class NodeTurns {
  /** The nodes by the keys of the sandboxes that have a turn. */
  readonly #nodes = new Map<string, string>();

  /** Plans a sandbox, without a new automatic checkpoint if its node has no turn left. Nothing is awaited between the two. */
  plan(state: SandboxState, planFor: (state: SandboxState) => SandboxPlan): SandboxPlan {
    const key = keyOf(state.sandbox.metadata);
    const node = state.pod?.spec.nodeName ?? "";
    const hasTurn = isTaking(state.sandbox);
    if (!hasTurn) this.#nodes.delete(key);
    const plan = planFor(state);
    const takes = plan.actions.some((action) => action.do === "createAutomaticCheckpoint");
    if (!takes && !hasTurn) return plan;
    if (!hasTurn && this.#countOn(node) >= mostOnNode) return planFor({ ...state, hasTurn: false });
    this.#nodes.set(key, node);
    return plan;
  }

  forget(key: string): void {
    this.#nodes.delete(key);
  }

  #countOn(node: string): number {
    return [...this.#nodes.values()].filter((one) => one === node).length;
  }
}

function isTaking({ status }: Sandbox): boolean {
  return status?.phase === "Running" && status.ramet?.automatic?.outcome === "Taking";
}
