import type { Sandbox, SandboxStatus } from "../../api/kinds/sandbox.ts";
import { volumesChoice } from "../../api/names/volumes-on-restore.ts";
import { rollbackRequest, isRollbackPending } from "../../api/names/rollback-request.ts";
import { problemOf } from "../../api/state/problem.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { type ConditionChange, report } from "../../kube/conditions.ts";
import { controllerOf } from "../../kube/object.ts";
import { type FoundOrigin, type Origin, originOfText } from "../origin/origin.ts";
import { fillClaimOf } from "../../backends/checkpoint-parts.ts";
import { inPlaceProblem, noSuchVolume, volumesOf } from "../volumes/restored-volumes.ts";
import { claimsOfSandbox } from "../volumes/claims-of-sandbox.ts";
import type { SandboxDependencies } from "./dependencies.ts";
import type { SandboxState } from "./state.ts";

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
    origin: await withVolumes(sandbox, { origin, checkpoint, template, pod }, dependencies),
    lacksCpu:
      origin.kind === "checkpoint" && dependencies.nodeCpus.lacks(pod?.spec.nodeName ?? undefined, origin.source.parts),
  };
}

type Rollback = Pick<SandboxState, "template" | "pod" | "origin"> & {
  checkpoint: FoundOrigin["checkpoint"] | undefined;
};

/**
 * Whether the checkpoint has the data of the volumes, and whether the request chooses the others. Those of a
 * paused sandbox have not changed since its pause.
 */
async function withVolumes(sandbox: Sandbox, rollback: Rollback, dependencies: SandboxDependencies): Promise<Origin> {
  const { origin, checkpoint } = rollback;
  if (origin.kind !== "checkpoint" || checkpoint === undefined) return origin;
  if (controllerOf(checkpoint)?.uid === sandbox.metadata.uid) return origin;
  try {
    const error = await volumesProblem(sandbox, rollback, dependencies);
    return error === undefined ? origin : { kind: "impossible", error };
  } catch (thrown) {
    const error = RametError.from(thrown);
    if (error.retryable) throw error;
    return { kind: "impossible", error };
  }
}

async function volumesProblem(
  sandbox: Sandbox,
  { origin, checkpoint, template, pod }: Rollback,
  { cache, backends }: SandboxDependencies,
): Promise<RametError | undefined> {
  if (origin.kind !== "checkpoint") return undefined;
  const { source } = origin;
  const volumes = { ...volumesOf(checkpoint, cache), id: source.name.checkpointId };
  const choice = volumesChoice(sandbox, "problem" in template ? undefined : template.template);
  const own = claimsOfSandbox(sandbox, template, pod);
  const problem = inPlaceProblem(volumes, choice, own);
  if (problem !== undefined || volumes.captured.length === 0) return problem;
  const absent = volumes.captured.find(({ volume }) => !own.some((one) => one.volume === volume?.volume));
  if (absent !== undefined) return noSuchVolume(volumes.id, absent.volume?.volume ?? "");
  // The Pod is deleted before its successor gets the claims, so their data is looked up first.
  await Promise.all(volumes.captured.map((part) => fillClaimOf(backends, { source, part, spec: {} })));
  return undefined;
}

/** Every other phase leads to one of these. */
const settledPhases = new Set<string | undefined>(["Running", "Paused", "Succeeded", "Failed"]);

/** Records that a request is refused. All else in the status stays, also what an earlier rollback left for the resume. */
export function refused(
  state: SandboxState,
  status: SandboxStatus,
  { request, error }: { request: string; error: RametError },
): SandboxStatus {
  const answered = withRolledBack(state, status, {
    ...notRolledBack(error.code, error.describe()),
    problem: problemOf(error),
  });
  const onResume = status.phase === "Paused" ? status.ramet?.rollback?.onResume : undefined;
  const rollback = defined({ request, onResume });
  return { ...answered, ramet: { ...answered.ramet, rollback } };
}

/** Sets the condition `RolledBack`. */
export function withRolledBack(
  { now }: SandboxState,
  status: SandboxStatus,
  condition: Omit<ConditionChange, "type">,
): SandboxStatus {
  return report(status, [{ type: "RolledBack", ...condition }], { now });
}

export function notRolledBack(reason: string, message: string) {
  return { type: "RolledBack", status: "False", reason, message } as const;
}

/**
 * A rollback in progress: the sandbox's old Pod is being deleted, or a new one restored. Or the resume after a rollback of the paused
 * sandbox that replaces its volumes.
 */
export interface RollbackUnderWay {
  request: string;
  checkpointId: string;
  /** Undefined: the sandbox had no Pod when the rollback started. */
  replacedPodUid?: string | undefined;
}

export function rollbackUnderWay({ status }: Sandbox): RollbackUnderWay | undefined {
  const { request, onResume, checkpointId = onResume, replacedPodUid } = status?.ramet?.rollback ?? {};
  if (status?.phase !== "Resuming" || request === undefined || checkpointId === undefined) return undefined;
  return { request, checkpointId, replacedPodUid };
}
