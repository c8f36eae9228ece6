import type { Sandbox, SandboxStatus } from "../../api/kinds/sandbox.ts";
import { rollbackRequest, wantsRollback } from "../../api/names/rollback-request.ts";
import type { Condition } from "../../api/schema/metadata.ts";
import type { Pod } from "../../api/schema/pod.ts";
import type { RametError } from "../../base/errors.ts";
import { setCondition } from "../../kube/conditions.ts";
import { originOfText } from "../common/origin.ts";
import type { SandboxDependencies, SandboxState } from "./state.ts";

/** A rollback that has begun and has not ended: the sandbox's Pod makes room, or another one is being restored. */
export interface RollbackUnderWay {
  request: string;
  checkpointId: string;
  /** Undefined: there was no Pod when it began. */
  replacedPodUid?: string | undefined;
}

export function rollbackUnderWay({ status }: Sandbox): RollbackUnderWay | undefined {
  const { request, checkpointId, replacedPodUid } = status?.ramet?.rollback ?? {};
  if (status?.phase !== "Resuming" || request === undefined || checkpointId === undefined) return undefined;
  return { request, checkpointId, replacedPodUid };
}

/** Under which the call for the rollback that is asked for by now is known: another request is another call. */
export function restoreInPlaceId(sandbox: Sandbox, pod: Pod): string {
  return `${pod.metadata.uid}/${rollbackRequest(sandbox)?.digest ?? ""}`;
}

/** The rollback that is asked for, and whether it can be done; everything is looked at before anything is touched. */
export async function gatherRollback(
  sandbox: Sandbox,
  template: SandboxState["template"],
  dependencies: SandboxDependencies,
): Promise<SandboxState["rollback"]> {
  const request = rollbackRequest(sandbox);
  if (request === undefined || !wantsRollback(sandbox) || !settledPhases.has(sandbox.status?.phase)) return undefined;
  const { namespace } = sandbox.metadata;
  const { origin } = await originOfText(namespace, () => request.to, dependencies);
  return { request, origin: origin("problem" in template ? undefined : template.template) };
}

/** A sandbox in another phase is on its way to one of these. */
const settledPhases = new Set<string | undefined>(["Running", "Paused", "Succeeded", "Failed"]);

/** Answers a request with no, and keeps the rest of a status as it is. */
export function refused(
  state: SandboxState,
  status: SandboxStatus,
  { request, error }: { request: string; error: RametError },
): SandboxStatus {
  const answered = withRolledBack(state, status, notRolledBack(error.code, error.describe()));
  return { ...answered, ramet: { ...answered.ramet, rollback: { request } } };
}

/** A status that says another thing of the last rollback. */
export function withRolledBack(
  { now }: SandboxState,
  status: SandboxStatus,
  condition: Pick<Condition, "status" | "reason" | "message">,
): SandboxStatus {
  return { ...status, conditions: setCondition(status.conditions ?? [], { type: "RolledBack", ...condition }, now) };
}

export function notRolledBack(reason: string, message: string) {
  return { type: "RolledBack", status: "False", reason, message } as const;
}
