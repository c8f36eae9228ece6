import type { CheckpointWish } from "../../api/kinds/checkpoint.ts";
import { RametError } from "../../base/errors.ts";
import { isPodReady, type Pod } from "../../api/schema/pod.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { findCondition } from "../../kube/conditions.ts";
import { controllerOf } from "../../kube/object.ts";
import { endMessage, isEnded } from "../common/pod-facts.ts";
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
    return problem("NotFound", `there is no sandbox ${name} with a Pod in this namespace`);
  }
  if (controllerOf(pod)?.uid !== sandbox.metadata.uid) {
    return problem("SandboxNotReady", `the Pod ${name} is not that of the sandbox ${name}`);
  }
  const state = stateOf(pod);
  if (state !== "Running") return problem("SandboxNotReady", `the Pod ${name} is ${state}, not Running`);
  const ready = findCondition(sandbox.status?.conditions, "Ready");
  if (ready?.status !== "True" && !isPodReady(pod)) {
    return problem(
      "SandboxNotReady",
      `the sandbox ${name} is not Ready: ${ready?.message ?? "it has not answered yet"}`,
    );
  }
  return { sandbox, pod };
}

function stateOf({ metadata, status }: Pod): string {
  return metadata.deletionTimestamp === undefined ? (status?.phase ?? "Pending") : "being deleted";
}

/**
 * For a checkpoint that was begun: the Pod that it was begun with, ready or not. It may stand still since the cut, and
 * another Pod of its name has nothing to do with it. `pod` absent: the API server has none of that name.
 */
export function begunSource(
  { sandboxName: name, podUid }: { sandboxName: string; podUid: string },
  sandbox: Sandbox | undefined,
  pod: Pod | undefined,
): Source {
  if (pod?.metadata.uid !== podUid) return { problem: lost(`the Pod ${name} is gone`), hasEnded: true };
  if (isEnded(pod)) return { problem: lost(`the Pod ${name} has ended: ${endMessage(pod)}`), hasEnded: true };
  if (sandbox === undefined || controllerOf(pod)?.uid !== sandbox.metadata.uid) {
    return { problem: lost(`the sandbox ${name} is gone`) };
  }
  if (pod.status?.phase !== "Running") return { problem: lost(`the Pod ${name} is ${stateOf(pod)}, not Running`) };
  return { sandbox, pod };
}

function lost(why: string): RametError {
  return new RametError("SandboxLost", `The checkpoint was not taken: ${why}`, {
    hint: "Clone what was taken before, or create the sandbox anew; then create another Checkpoint",
  });
}

const whenReady = "Create another Checkpoint when the sandbox is Ready";

function problem(code: "NotFound" | "SandboxNotReady", why: string): Source {
  return { problem: new RametError(code, `The checkpoint was not taken: ${why}`, { hint: whenReady }) };
}
