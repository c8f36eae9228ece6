import { finalizers } from "../../api/names/labels.ts";
import type { Pod } from "../../api/schema/pod.ts";
import type { PodTemplateSpec } from "../../api/schema/pod-template.ts";
import { cellRuns, isEnded, startProblem } from "../common/pod-facts.ts";
import type { ResolvedTemplate } from "../common/resolve-template.ts";
import type { SandboxAction, SandboxPlan, SandboxState } from "./state.ts";
import { ended, failed, notReady, running } from "./status.ts";

/** From nothing, or from a pause, to Running: a Pod, then a boot or a restore in it. */
export function planStart(state: SandboxState): SandboxPlan {
  const { template, pod, origin } = state;
  if (pod === undefined && origin.kind === "impossible") return { actions: [], status: failed(state, origin.error) };
  if (pod === undefined && origin.kind === "waiting") {
    return { actions: [], status: notReady(state, "PodCreateFailed", origin.message) };
  }
  if ("problem" in template) {
    return { actions: [], status: notReady(state, "PodCreateFailed", template.problem.describe()) };
  }
  if (pod === undefined) return planPod(state, template);
  if (pod.metadata.deletionTimestamp !== undefined)
    return slowly(state, `The Pod ${pod.metadata.name} is being deleted`);
  const plan = planInPod(state, template, pod);
  return { ...plan, actions: [...finalizer(state, template), ...plan.actions] };
}

function planPod(state: SandboxState, template: ResolvedTemplate): SandboxPlan {
  if (state.foreignPod !== undefined) return planForeignPod(state, state.foreignPod);
  const start = state.origin.kind === "new" ? "boot" : "wait";
  return { actions: [...finalizer(state, template), { do: "createPod", template, start }] };
}

/** The reference stays Pending here too: the name may become free. */
function planForeignPod(state: SandboxState, { metadata }: Pod): SandboxPlan {
  const message =
    metadata.deletionTimestamp === undefined
      ? `A Pod ${metadata.name} exists and is not this sandbox's; delete it, or give the sandbox another name`
      : `The Pod ${metadata.name} of an earlier sandbox is being deleted`;
  if (metadata.deletionTimestamp !== undefined) return slowly(state, message);
  return {
    actions: [],
    status: notReady(state, "PodCreateFailed", message),
    transitions: [{ type: "Warning", reason: "PodOwnerMismatch", action: "CreatePod", note: message }],
  };
}

function planInPod(state: SandboxState, { template }: ResolvedTemplate, pod: Pod): SandboxPlan {
  const { start } = state;
  if (start?.state === "done") return { actions: [], status: running(state, pod, start.value) };
  // A cell that cannot start its sandbox says why, and ends: its answer says more than its end.
  if (start?.state === "failed") return { actions: [], status: failed(state, start.error) };
  if (isEnded(pod)) return { actions: [], status: ended(state, pod) };
  if (!cellRuns(pod)) return planWaiting(state, pod);
  if (start !== undefined) return slowly(state, start.lastError?.message ?? "Waiting for the sandbox to answer");
  return planContents(state, template, pod);
}

function planContents(state: SandboxState, template: PodTemplateSpec, pod: Pod): SandboxPlan {
  const { origin } = state;
  if (origin.kind === "impossible") return { actions: [], status: failed(state, origin.error) };
  if (origin.kind === "waiting") return slowly(state, origin.message);
  const source = origin.kind === "checkpoint" ? origin.source : undefined;
  return { actions: [{ do: "startSandbox", pod, template, source }] };
}

function planWaiting(state: SandboxState, pod: Pod): SandboxPlan {
  const problem = startProblem(pod);
  if (problem !== undefined) return { actions: [], status: notReady(state, "StartContainerFailed", problem) };
  return slowly(state, `Waiting for the Pod ${pod.metadata.name} to start`);
}

/** Says for what it waits, once it has waited for long: who starts at once needs one status and not two. */
function slowly(state: SandboxState, message: string): SandboxPlan {
  if (state.slowInMilliseconds > 0) return { actions: [] };
  return { actions: [], status: notReady(state, "PodCreateFailed", message) };
}

/**
 * In the same write, a sandbox without a template gets its checkpoint's: the checkpoint may be deleted one day. And one that
 * names a snapshot keeps what the name stands for.
 */
function finalizer({ sandbox, origin }: SandboxState, template: ResolvedTemplate): SandboxAction[] {
  if (sandbox.metadata.finalizers?.includes(finalizers.sandbox) ?? false) return [];
  const resolvedCheckpoint = origin.kind === "checkpoint" && origin.isNamed === true && origin.source.name.checkpointId;
  return [
    {
      do: "addFinalizer",
      ...(template.borrowed && { borrowed: template }),
      ...(resolvedCheckpoint !== false && { resolvedCheckpoint }),
    },
  ];
}
