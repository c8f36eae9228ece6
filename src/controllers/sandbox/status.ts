import type { RametError } from "../../api/errors.ts";
import { labels } from "../../api/labels.ts";
import type { Condition } from "../../api/metadata.ts";
import type { Pod } from "../../api/pod.ts";
import type { SandboxConditionType, SandboxPhase, SandboxStatus } from "../../api/sandbox.ts";
import { setCondition } from "../../kube/conditions.ts";
import { endMessage, endReason } from "./pod-facts.ts";
import type { SandboxState, StartOutcome } from "./state.ts";

export interface ConditionChange {
  type: SandboxConditionType;
  status: "True" | "False";
  reason: string;
  message?: string;
}

/** The present status with another phase, message and conditions. An old message does not stay. */
export function changed(
  { sandbox, now }: Pick<SandboxState, "sandbox" | "now">,
  phase: SandboxPhase,
  { message, conditions = [], drop = [] }: { message?: string; conditions?: ConditionChange[]; drop?: string[] },
): SandboxStatus {
  const { message: _, ...before } = sandbox.status ?? {};
  const kept = (before.conditions ?? []).filter(({ type }) => !drop.includes(type));
  return {
    ...before,
    phase,
    ...(message !== undefined && message !== "" && { message }),
    conditions: conditions.reduce<Condition[]>(
      (all, condition) => setCondition(all, { message: "", ...condition }, now),
      kept,
    ),
  };
}

/** For what cannot go on: the phase is Failed, and the reason is the error's code. */
export function failed(state: SandboxState, error: RametError): SandboxStatus {
  const message = error.describe();
  return changed(state, "Failed", {
    message,
    conditions: [{ type: "Ready", status: "False", reason: error.code, message }],
  });
}

/** The Pod has ended, well or not. */
export function ended(state: SandboxState, pod: Pod): SandboxStatus {
  const message = endMessage(pod);
  return changed(state, pod.status?.phase === "Succeeded" ? "Succeeded" : "Failed", {
    message,
    conditions: [{ type: "Ready", status: "False", reason: endReason(pod), message }],
  });
}

/** For what may yet come right: the phase stays, and the condition says what is missing. */
export function notReady(state: SandboxState, reason: string, message: string): SandboxStatus {
  const phase = state.sandbox.status?.phase === "Resuming" ? "Resuming" : "Pending";
  return changed(state, phase, { message, conditions: [{ type: "Ready", status: "False", reason, message }] });
}

/** The sandbox answers. */
export function running(state: SandboxState, pod: Pod, { state: cell, ...started }: StartOutcome): SandboxStatus {
  const { sandbox } = state;
  const resumed = sandbox.status?.phase === "Resuming";
  const restoredFrom = resumed ? sandbox.status?.ramet?.restoredFrom : started.checkpointId;
  return {
    ...changed(state, "Running", {
      conditions: [
        { type: "Ready", status: "True", reason: "PodReady" },
        ...(resumed ? [{ type: "SandboxResumed", status: "True", reason: "ResumePod" } as const] : []),
      ],
      drop: ["SandboxPaused"],
    }),
    ...placeOf(pod),
    ramet: {
      generation: cell.generation,
      ...(started.bootMilliseconds !== undefined && { bootMilliseconds: started.bootMilliseconds }),
      ...(restoredFrom !== undefined && { restoredFrom }),
      phases: started.phases,
    },
  };
}

function placeOf({ metadata, spec, status }: Pod): Partial<SandboxStatus> {
  const { nodeName } = spec;
  const podIP = status?.podIP;
  const updateRevision = metadata.labels?.[labels.podTemplateHash];
  return {
    ...(nodeName !== undefined && { nodeName }),
    ...(podIP !== undefined && { sandboxIp: podIP }),
    ...(updateRevision !== undefined && { updateRevision }),
    podInfo: {
      ...(metadata.annotations && { annotations: metadata.annotations }),
      ...(metadata.labels && { labels: metadata.labels }),
      ...(nodeName !== undefined && { nodeName }),
      ...(podIP !== undefined && { podIP }),
      podUID: metadata.uid,
    },
  };
}
