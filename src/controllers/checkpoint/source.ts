import type { CheckpointWish } from "../../api/checkpoint.ts";
import { RametError } from "../../api/errors.ts";
import { isPodReady, type Pod } from "../../api/pod.ts";
import type { Sandbox } from "../../api/sandbox.ts";
import { findCondition } from "../../kube/conditions.ts";
import { controllerOf } from "../../kube/object.ts";
import type { Source } from "./state.ts";

/**
 * What a checkpoint captures. It needs a Pod that runs and is ready: by its own condition, or by the sandbox's, which the
 * cell's answer made true before a kubelet's first probe.
 */
export function sourceOf(
  { sandboxName: name }: CheckpointWish,
  sandbox: Sandbox | undefined,
  pod: Pod | undefined,
): Source {
  if (pod === undefined || sandbox === undefined) {
    return problem("NotFound", `there is no sandbox ${name} with a Pod in this namespace`, whenReady);
  }
  if (controllerOf(pod)?.uid !== sandbox.metadata.uid) {
    return problem("SandboxNotReady", `the Pod ${name} belongs to another sandbox than ${name}`, whenReady);
  }
  if (pod.metadata.deletionTimestamp !== undefined || pod.status?.phase !== "Running") {
    const state = pod.metadata.deletionTimestamp === undefined ? (pod.status?.phase ?? "Pending") : "being deleted";
    return problem("SandboxNotReady", `the Pod ${name} is ${state}, not Running`, whenReady);
  }
  const ready = findCondition(sandbox.status?.conditions, "Ready");
  if (ready?.status !== "True" && !isPodReady(pod)) {
    const why = ready?.message === undefined || ready.message === "" ? "it has not answered yet" : ready.message;
    return problem("SandboxNotReady", `the sandbox ${name} is not Ready: ${why}`, whenReady);
  }
  return { sandbox, pod };
}

const whenReady = "Create another Checkpoint when the sandbox is Ready";

function problem(code: "NotFound" | "SandboxNotReady", why: string, hint: string): Source {
  return { problem: new RametError(code, `The checkpoint was not taken: ${why}`, { hint }) };
}
