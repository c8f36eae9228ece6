import type { Sandbox, SandboxStatus } from "../../api/kinds/sandbox.ts";
import { volumesChoice } from "../../api/names/volumes-on-restore.ts";
import { rollbackRequest, isRollbackPending } from "../../api/names/rollback-request.ts";
import type { Condition } from "../../api/schema/metadata.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { RametError } from "../../base/errors.ts";
import { setCondition } from "../../kube/conditions.ts";
import { controllerOf } from "../../kube/object.ts";
import { type FoundOrigin, type Origin, originOfText } from "../common/origin.ts";
import { inPlaceProblem, volumesOf } from "../common/restored-volumes.ts";
import { claimsOfSandbox } from "./gather-volumes.ts";
import type { SandboxDependencies, SandboxState } from "./state.ts";

/** A rollback in progress: the sandbox's old Pod is being deleted, or a new one restored. */
export interface RollbackUnderWay {
  request: string;
  checkpointId: string;
  /** Undefined: the sandbox had no Pod when the rollback started. */
  replacedPodUid?: string | undefined;
}

export function rollbackUnderWay({ status }: Sandbox): RollbackUnderWay | undefined {
  const { request, checkpointId, replacedPodUid } = status?.ramet?.rollback ?? {};
  if (status?.phase !== "Resuming" || request === undefined || checkpointId === undefined) return undefined;
  return { request, checkpointId, replacedPodUid };
}

/** Identifies the call for the requested rollback. Another request has another id. */
export function restoreInPlaceId(sandbox: Sandbox, pod: Pod): string {
  return `${pod.metadata.uid}/${rollbackRequest(sandbox)?.digest ?? ""}`;
}

/** The requested rollback, and whether its checkpoint can be restored. Everything is checked before anything changes. */
export async function gatherRollback(
  sandbox: Sandbox,
  { template, pod }: Pick<SandboxState, "template" | "pod">,
  dependencies: SandboxDependencies,
): Promise<SandboxState["rollback"]> {
  const request = rollbackRequest(sandbox);
  if (request === undefined || !isRollbackPending(sandbox) || !settledPhases.has(sandbox.status?.phase))
    return undefined;
  const { namespace } = sandbox.metadata;
  const { origin: find, checkpoint } = await originOfText(namespace, () => request.to, dependencies);
  const origin = find("problem" in template ? undefined : template.template);
  return {
    request,
    origin: withVolumes(sandbox, { origin, checkpoint, template, pod }, dependencies),
    lacksCpu:
      origin.kind === "checkpoint" && dependencies.nodeCpus.lacks(pod?.spec.nodeName ?? undefined, origin.source.parts),
  };
}

/** Whether the request says what the volumes shall be. Those of a paused sandbox have not changed since its pause. */
function withVolumes(
  sandbox: Sandbox,
  {
    origin,
    checkpoint,
    template,
    pod,
  }: Pick<SandboxState, "template" | "pod" | "origin"> & { checkpoint: FoundOrigin["checkpoint"] | undefined },
  { cache }: SandboxDependencies,
): Origin {
  if (origin.kind !== "checkpoint" || checkpoint === undefined) return origin;
  if (controllerOf(checkpoint)?.uid === sandbox.metadata.uid) return origin;
  const { checkpointId: id } = origin.source.name;
  try {
    const choice = volumesChoice(sandbox, "problem" in template ? undefined : template.template);
    const error = inPlaceProblem(
      { ...volumesOf(checkpoint, cache), id },
      choice,
      claimsOfSandbox(sandbox, template, pod),
    );
    return error === undefined ? origin : { kind: "impossible", error };
  } catch (error) {
    return { kind: "impossible", error: RametError.from(error) };
  }
}

/** Every other phase leads to one of these. */
const settledPhases = new Set<string | undefined>(["Running", "Paused", "Succeeded", "Failed"]);

/** Records that a request is refused. All else in the status stays. */
export function refused(
  state: SandboxState,
  status: SandboxStatus,
  { request, error }: { request: string; error: RametError },
): SandboxStatus {
  const answered = withRolledBack(state, status, notRolledBack(error.code, error.describe()));
  return { ...answered, ramet: { ...answered.ramet, rollback: { request } } };
}

/** Sets the condition `RolledBack`. */
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
