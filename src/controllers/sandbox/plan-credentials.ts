import { credentialsDigest } from "../../api/credentials/credentials.ts";
import type { SandboxStatus } from "../../api/kinds/sandbox.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { findCondition } from "../../kube/conditions.ts";
import { soonest } from "../../kube/controller.ts";
import { defined } from "../../base/defined.ts";
import { cellRuns } from "../cluster/pod-facts.ts";
import type { CredentialsOutcome, SandboxPlan, SandboxState } from "./state.ts";
import { amended, type ConditionChange, notApplied } from "./status.ts";

/** Gives the cell of a running sandbox its credentials, again and again, and reports what cannot be resolved. */
export function withCredentials(state: SandboxState, plan: SandboxPlan): SandboxPlan {
  const { sandbox, pod } = state;
  const { phase } = plan.status ?? sandbox.status ?? {};
  if (phase === "Pending") return planPending(state, plan);
  if (phase !== "Running" || pod === undefined || pod.metadata.deletionTimestamp !== undefined) return plan;
  const { problem } = state.credentials;
  return problem === undefined
    ? planRunning(state, plan, pod)
    : reported(state, plan, notApplied("CredentialsApplied", problem));
}

/** It has no Pod until the annotation is changed, and its client should not wait for that. */
function planPending(state: SandboxState, plan: SandboxPlan): SandboxPlan {
  const { problem } = state.credentials;
  if (problem === undefined) return reported(state, plan, undefined);
  return state.pod === undefined ? reported(state, plan, notApplied("CredentialsApplied", problem)) : plan;
}

function planRunning(state: SandboxState, plan: SandboxPlan, pod: Pod): SandboxPlan {
  const { credentials: wanted, credentialsCall: call } = state;
  const given = call?.state === "done" ? call.value : undefined;
  if (wanted.credentials === undefined && given === undefined && !wasGiven(state)) return plan;
  if (call?.state === "running")
    return call.lastError === undefined
      ? plan
      : reported(state, plan, notApplied("CredentialsApplied", call.lastError));
  if (isGiven(state, given)) return planGiven(state, plan, given);
  if (!cellRuns(pod)) return plan;
  const { credentials, digest } = wanted;
  return { ...plan, actions: [...plan.actions, { do: "setCredentials", pod, credentials, digest }] };
}

function isGiven(
  { credentials, now }: SandboxState,
  given: CredentialsOutcome | undefined,
): given is CredentialsOutcome {
  return given?.digest === credentials.digest && given.again.getTime() > now.getTime();
}

/** An earlier process of the controllers has given some. */
function wasGiven({ sandbox }: SandboxState): boolean {
  return sandbox.status?.conditions?.some(({ type }) => type === "CredentialsApplied") ?? false;
}

function planGiven(state: SandboxState, plan: SandboxPlan, given: CredentialsOutcome): SandboxPlan {
  if (given.error !== undefined)
    return soon(reported(state, plan, notApplied("CredentialsApplied", given.error)), state, given);
  if (state.credentials.credentials === undefined) return reported(state, plan, undefined);
  return soon(reported(state, plan, { type: "CredentialsApplied", status: "True", reason: "Applied" }), state, given);
}

function soon(plan: SandboxPlan, { now }: SandboxState, { again }: CredentialsOutcome): SandboxPlan {
  return { ...plan, ...soonest(again.getTime() - now.getTime(), plan.requeueAfterMilliseconds) };
}

function reported(state: SandboxState, plan: SandboxPlan, condition: ConditionChange | undefined): SandboxPlan {
  const before: SandboxStatus = plan.status ?? state.sandbox.status ?? {};
  if (condition === undefined && !wasGiven(state)) return plan;
  const status = withDigest(before, isAnswered(condition) ? credentialsDigest(state.sandbox.metadata) : undefined);
  const conditions = condition === undefined ? [] : [...unready(status, condition), condition];
  return amended(state, { ...plan, status }, { conditions, drop: ["CredentialsApplied"] });
}

/** A sandbox that is created paused has no other reason not to be ready yet. */
function unready({ phase, conditions }: SandboxStatus, condition: ConditionChange): ConditionChange[] {
  if (phase === "Running" || findCondition(conditions, "Ready") !== undefined) return [];
  return [{ ...condition, type: "Ready" }];
}

/** Whoever waits for a request that stays invalid gets the reason. */
function isAnswered(condition: ConditionChange | undefined): boolean {
  return condition?.status === "True" || condition?.reason === "InvalidArgument";
}

function withDigest(status: SandboxStatus, own: string | undefined): SandboxStatus {
  const { credentials: _, ...others } = status.ramet ?? {};
  return { ...status, ramet: { ...others, ...defined({ credentials: own }) } };
}
