import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { storageLimit } from "../../api/pod/cell-pod.ts";
import type { Pod } from "../../api/schema/pod.ts";
import { quantityToBytes } from "../../base/quantity.ts";
import { volumesChoice } from "../../api/names/volumes-on-restore.ts";
import { rollbackRequest, isRollbackPending } from "../../api/names/rollback-request.ts";
import { RametError } from "../../base/errors.ts";
import { controllerOf } from "../../kube/object.ts";
import { originOfText } from "../origin/origin.ts";
import { fillClaimOf, type RestoreSource } from "../../backends/checkpoint-parts.ts";
import { inPlaceProblem, noSuchVolume, volumesOf, claimsOfSandbox } from "../volumes/restored-volumes.ts";
import type { NodeCpus } from "../nodes/node-cpus.ts";
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
  if (origin.kind !== "checkpoint" || checkpoint === undefined) return { request, origin, needsNewPod: false };
  const { source } = origin;
  const error = await volumesProblem(sandbox, { source, checkpoint, template, pod }, dependencies);
  return {
    request,
    origin: error === undefined ? origin : { kind: "impossible", error },
    needsNewPod: needsNewPod({ template, pod }, source, dependencies),
  };
}

/** Whether the Pod lacks what a restore in place needs: a feature of its node's CPU, or room for layers. */
export function needsNewPod(
  { template, pod }: Pick<SandboxState, "template" | "pod">,
  { parts }: RestoreSource,
  { nodeCpus }: { nodeCpus: Pick<NodeCpus, "lacks" | "limitsStorage"> },
): boolean {
  const node = pod?.spec.nodeName;
  if (nodeCpus.lacks(node, parts)) return true;
  if (!nodeCpus.limitsStorage(node) || "problem" in template) return false;
  const layers = parts.flatMap((part) => part.layers ?? []);
  return limitOf(pod) < (storageLimit(template.template, layers) ?? 0);
}

function limitOf(pod: Pod | undefined): number {
  const limit = pod?.spec.containers[0]?.resources?.limits?.["ephemeral-storage"];
  return limit === undefined ? Infinity : quantityToBytes(limit);
}

interface FoundCheckpoint extends Pick<SandboxState, "template" | "pod"> {
  source: RestoreSource;
  checkpoint: Checkpoint;
}

/**
 * Why the volumes of a sandbox prevent the rollback: the checkpoint lacks the data of some, and the request does not choose them; or
 * the data is gone.
 */
async function volumesProblem(
  sandbox: Sandbox,
  { source, checkpoint, template, pod }: FoundCheckpoint,
  { backends }: SandboxDependencies,
): Promise<RametError | undefined> {
  // Those of a paused sandbox have not changed since its pause.
  if (controllerOf(checkpoint)?.uid === sandbox.metadata.uid) return undefined;
  try {
    const volumes = { ...volumesOf(checkpoint), id: source.name.checkpointId };
    const choice = volumesChoice(sandbox, "problem" in template ? undefined : template.template);
    const own = claimsOfSandbox(sandbox, template, pod);
    const problem = inPlaceProblem(volumes, choice, own);
    if (problem !== undefined) return problem;
    const absent = volumes.captured.find(({ volume }) => !own.some((one) => one.volume === volume?.volume));
    if (absent !== undefined) return noSuchVolume(volumes.id, absent.volume?.volume ?? "");
    // The Pod is deleted before its successor gets the claims, so their data is looked up first.
    await Promise.all(volumes.captured.map((part) => fillClaimOf(backends, { source, part, spec: {} })));
    return undefined;
  } catch (thrown) {
    const error = RametError.from(thrown);
    if (error.retryable) throw error;
    return error;
  }
}

/** Every other phase leads to one of these. */
const settledPhases = new Set<string | undefined>(["Running", "Paused", "Succeeded", "Failed"]);

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
