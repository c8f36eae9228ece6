import * as z from "zod";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { storageLimit } from "../../api/pod/cell-pod.ts";
import type { LayerRef } from "../../api/wire/grant.ts";
import { parsedJson } from "../../base/tolerant-parse.ts";
import { volumesChoice } from "../../api/names/volumes-on-restore.ts";
import { rollbackRequest, isRollbackPending } from "../../api/names/rollback-request.ts";
import { RametError } from "../../base/errors.ts";
import { findCondition } from "../../kube/conditions.ts";
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
  const isSettled = settledPhases.has(sandbox.status?.phase) || awaitsRetry(sandbox);
  if (request === undefined || !isRollbackPending(sandbox) || !isSettled) return undefined;
  const { namespace } = sandbox.metadata;
  const { origin: find, checkpoint } = await originOfText(namespace, () => request.to, dependencies);
  const origin = find("problem" in template ? undefined : template.template);
  if (origin.kind !== "checkpoint" || checkpoint === undefined) return { request, origin, needsNewPod: false };
  const { source } = origin;
  const error = await volumesProblem(sandbox, { source, checkpoint, template, pod }, dependencies);
  return {
    request,
    origin: error === undefined ? origin : { kind: "impossible", error },
    needsNewPod: needsNewPod({ sandbox, template, pod }, source, dependencies),
  };
}

/** Whether the Pod lacks what a restore in place needs: a feature of its node's CPU, or room for layers. */
export function needsNewPod(
  { sandbox, template, pod }: Pick<SandboxState, "sandbox" | "template" | "pod">,
  { parts }: RestoreSource,
  { nodeCpus }: { nodeCpus: Pick<NodeCpus, "lacks" | "limitsStorage"> },
): boolean {
  const node = pod?.spec.nodeName;
  if (nodeCpus.lacks(node, parts)) return true;
  if (!nodeCpus.limitsStorage(node) || "problem" in template) return false;
  const added = addedLayers({ sandbox, pod }, parts);
  // Another Pod of the template gets more room for them, if the template lets it.
  return (
    added.length > 0 &&
    (storageLimit(template.template, added) ?? Infinity) > (storageLimit(template.template, []) ?? 0)
  );
}

/**
 * The layers that a Pod with a limit would unpack besides those that it got room for. It keeps what it has unpacked, so every other layer
 * exceeds that room, also if it is small.
 */
function addedLayers(
  { sandbox, pod }: Pick<SandboxState, "sandbox" | "pod">,
  parts: RestoreSource["parts"],
): readonly LayerRef[] {
  // A sidecar that a webhook has added can come first, and the template can have another name for the container by now.
  const own = pod?.spec.containers
    .map(({ env, resources }) => ({ config: env?.find(({ name }) => name === "RAMET_CELL")?.value, resources }))
    .find(({ config }) => config !== undefined);
  if (own?.config === undefined || own.resources?.limits?.["ephemeral-storage"] === undefined) return [];
  const given = parsedJson(GivenLayers, own.config)?.layers ?? [];
  const unpacked = new Set([...given.map((layer) => layer.checkpointId), ...(sandbox.status?.ramet?.layers ?? [])]);
  return parts.flatMap(({ layers = [] }) => layers.filter(({ checkpointId }) => !unpacked.has(checkpointId)));
}

/** The field of a cell's configuration that says which layers its Pod was created for, of any release. */
const GivenLayers = z.object({ layers: z.array(z.object({ checkpointId: z.string() })).default([]) });

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

/** Every other phase leads to one of these, unless it waits for somebody. */
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

/** Whether a paused sandbox starts again, and not a rollback. */
export function isResume(sandbox: Sandbox): boolean {
  return sandbox.status?.phase === "Resuming" && rollbackUnderWay(sandbox) === undefined;
}

/** Whether a resume waits for its image or its store. The status says so until the next Pod shows whether that is back. */
export function awaitsRetry(sandbox: Sandbox): boolean {
  return isResume(sandbox) && isPassing(findCondition(sandbox.status?.conditions, "Ready")?.reason ?? "");
}

/** Whether a resume that is refused with this code is tried again. */
export function isPassing(code: string): code is "ImageReplaced" | "StoreUnavailable" {
  return code === "ImageReplaced" || code === "StoreUnavailable";
}
