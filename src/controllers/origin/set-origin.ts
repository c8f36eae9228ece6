import { type CheckpointPart, volumeParts } from "../../api/kinds/checkpoint.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, restoreFromAnnotations } from "../../api/names/labels.ts";
import { resolveOrigin } from "../../api/snapshot/resolve-origin.ts";
import { resultOr } from "../../base/errors.ts";
import type { Cache } from "../cluster/cache.ts";
import { partsOf } from "../../backends/checkpoint-record.ts";
import { neededEngine } from "../images/engines.ts";
import type { NodeCpus } from "../nodes/node-cpus.ts";

type OriginCache = Pick<Cache, "checkpointById" | "snapshot">;

/**
 * Decides whether the memory of a reference can be restored in place in a sandbox: in its cell, on the CPU of its node. Undefined: it
 * needs no engine, as far as the cache knows.
 */
export function fitsReference(
  namespace: string,
  reference: string,
  { cache, nodeCpus }: { cache: OriginCache; nodeCpus: Pick<NodeCpus, "lacks"> },
): ((sandbox: Sandbox) => boolean) | undefined {
  const parts = partsOfReference(namespace, reference, cache);
  const { engineId } = neededEngine(parts);
  if (engineId === undefined) return undefined;
  return ({ status }) => status?.ramet?.engine === engineId && !nodeCpus.lacks(status.nodeName, parts);
}

/** Whether a reference has volumes. The volumes of a Pod never change, so a running one cannot be restored from it. */
export function hasCapturedVolumes(namespace: string, reference: string, cache: OriginCache): boolean {
  return volumeParts(partsOfReference(namespace, reference, cache)).length > 0;
}

function partsOfReference(namespace: string, reference: string, cache: OriginCache): readonly CheckpointPart[] {
  // The sandbox or the claim reports a reference that cannot be resolved.
  const id = resultOr(() => resolveOrigin(namespace, reference, cache), undefined);
  const checkpoint = id === undefined ? undefined : cache.checkpointById(namespace, id);
  return partsOf(checkpoint?.status?.ramet) ?? [];
}

/**
 * All references of a Sandbox to its origins: checkpoint ids, and named snapshots with or without a version. The checkpoints
 * that they refer to must not be removed.
 */
export function originReferences({ metadata, spec, status }: Sandbox): string[] {
  const { restoredFrom = "", rollback } = status?.ramet ?? {};
  const rollbackTo = metadata.annotations?.[annotations.rollbackTo] ?? "";
  const others = [rollbackTo, restoredFrom, rollback?.checkpointId ?? ""].filter((text) => text !== "");
  return [...new Set([...namedBy(metadata.annotations), ...templateOriginReferences(spec.template), ...others])];
}

/** The same for a Pod template of a set or a SandboxTemplate. The API does not validate it, so it may contain anything. */
export function templateOriginReferences(template: Record<string, unknown> | undefined): string[] {
  const metadata = template?.["metadata"] as { annotations?: Record<string, unknown> } | null | undefined;
  return namedBy(metadata?.annotations);
}

function namedBy(values: Record<string, unknown> | undefined): string[] {
  return [...restoreFromAnnotations, annotations.resolvedCheckpoint].flatMap((key) => {
    const value = values?.[key];
    return typeof value === "string" && value !== "" ? [value] : [];
  });
}
