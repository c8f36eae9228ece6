import { requestedEgress } from "../../api/egress/effective-egress.ts";
import { defined } from "../../base/defined.ts";
import type { RametError } from "../../base/errors.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { findCondition } from "../../kube/conditions.ts";
import { appliedEgress } from "../origin/egress.ts";
import { cellRuns } from "../cluster/pod-facts.ts";
import type { SandboxPlan, SandboxState } from "./state.ts";
import { amended, type ConditionChange, egressConditions, notApplied } from "./status.ts";

/** Gives the cell of a running sandbox the egress policy of its levels, and reports what cannot be honoured. */
export function withEgress(state: SandboxState, plan: SandboxPlan): SandboxPlan {
  const { sandbox, pod } = state;
  const { phase } = plan.status ?? sandbox.status ?? {};
  if (phase !== "Running" || pod === undefined || pod.metadata.deletionTimestamp !== undefined) return plan;
  return planInPod(state, plan, pod);
}

function planInPod(state: SandboxState, plan: SandboxPlan, pod: Pod): SandboxPlan {
  const { sandbox, egress, egressCall } = state;
  if (egressCall?.state === "running") return whileGiven(state, plan, egressCall.lastError);
  const given = egressCall?.state === "done" ? egressCall.value : undefined;
  const { policy, digest } = egress;
  if ((given?.digest ?? appliedEgress(sandbox, pod)) !== digest) {
    if (!cellRuns(pod)) return plan;
    return { ...plan, actions: [...plan.actions, { do: "setEgress", pod, policy, digest }] };
  }
  if (given?.error !== undefined) return withConditions(state, plan, [notApplied("EgressApplied", given.error)]);
  const applied = given === undefined ? plan : recorded(state, plan);
  return withConditions(state, withRequest(state, applied), egressConditions(egress));
}

/** Clients wait for this after a request, which can leave the policy as it is. */
function withRequest({ sandbox }: SandboxState, plan: SandboxPlan): SandboxPlan {
  const request = requestedEgress(sandbox.metadata);
  const status = plan.status ?? sandbox.status;
  const { egressRequest: before, ...others } = status?.ramet ?? {};
  if (before === request) return plan;
  return {
    ...plan,
    status: { ...status, ramet: { ...others, ...defined({ egressRequest: request }) } },
  };
}

/** Reports why the call is repeated. */
function whileGiven(state: SandboxState, plan: SandboxPlan, error: RametError | undefined): SandboxPlan {
  return error === undefined ? plan : withConditions(state, plan, [notApplied("EgressApplied", error)]);
}

function recorded({ sandbox, egress: { digest } }: SandboxState, plan: SandboxPlan): SandboxPlan {
  const status = plan.status ?? sandbox.status;
  return { ...plan, status: { ...status, ramet: { ...status?.ramet, egress: digest } } };
}

function withConditions(state: SandboxState, plan: SandboxPlan, conditions: ConditionChange[]): SandboxPlan {
  const { conditions: before } = plan.status ?? state.sandbox.status ?? {};
  if (conditions.length === 0 && findCondition(before, "EgressApplied") === undefined) return plan;
  return amended(state, plan, { conditions, drop: ["EgressApplied"] });
}
