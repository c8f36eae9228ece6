import { initRequestDigest } from "../../api/names/init-request.ts";
import type { SandboxStatus } from "../../api/kinds/sandbox.ts";
import { wantsAdoption } from "./adoption-id.ts";
import { cellRuns } from "../common/pod-facts.ts";
import type { SandboxPlan, SandboxState } from "./state.ts";
import { changed, initialized, type ConditionChange } from "./status.ts";

/**
 * A running sandbox whose annotation asks for another environment than its guest has: a claim has just written it. New
 * commands get it; what runs keeps what it has.
 */
export function withAdoption(state: SandboxState, plan: SandboxPlan): SandboxPlan {
  const { sandbox, pod, template, adoption } = state;
  // What takes the place of this one has it from the first moment.
  if (state.rollback !== undefined) return plan;
  if (!wantsAdoption(sandbox) || pod === undefined || "problem" in template || !cellRuns(pod)) return plan;
  if (adoption === undefined) {
    return { ...plan, actions: [...plan.actions, { do: "adoptIdentity", pod, template: template.template }] };
  }
  if (adoption.state === "failed") {
    const message = adoption.error.describe();
    return withStatus(state, plan, { type: "RuntimeInitialized", status: "False", reason: "Failed", message });
  }
  if (adoption.state === "running") return plan;
  const { status, ...rest } = withStatus(state, plan, initialized);
  const { initRequest: _, ...ramet } = status.ramet ?? {};
  const initRequest = initRequestDigest(sandbox);
  const { generation } = adoption.value;
  return {
    ...rest,
    status: { ...status, ramet: { ...ramet, generation, ...(initRequest !== undefined && { initRequest }) } },
  };
}

function withStatus(
  state: SandboxState,
  plan: SandboxPlan,
  condition: ConditionChange,
): SandboxPlan & { status: SandboxStatus } {
  const status = plan.status ?? state.sandbox.status ?? {};
  const message = status.message ?? "";
  const { now } = state;
  const sandbox = { ...state.sandbox, status };
  return { ...plan, status: changed({ sandbox, now }, "Running", { message, conditions: [condition] }) };
}
