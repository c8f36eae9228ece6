import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, restoreFromAnnotations } from "../../api/names/labels.ts";
import { findVersion, isPinnedReference, parseSnapshotReference } from "../../api/snapshot/snapshot-reference.ts";
import type { Cache } from "./cache.ts";

/**
 * The checkpoint that a `restore-from` annotation on a set's template means: the one place where a set looks a reference up.
 * A reference is a checkpoint id, or a named snapshot of the namespace with or without a version. What it is resolved to
 * stands in each sandbox and in the revision, so a reference that comes to mean another checkpoint makes another revision,
 * to which the set rolls.
 *
 * An id that does not exist is not refused here: the sandbox that is tried says so, and the set passes it on.
 * @throws RametError `CheckpointNotReady` when the named snapshot has no version yet, `NotFound` when that one is not kept
 */
export function resolveOrigin(
  namespace: string,
  reference: string,
  cache: Pick<Cache, "checkpointById" | "snapshot">,
): string {
  const [name = ""] = reference.split("@");
  const snapshot = cache.snapshot(`${namespace}/${name}`);
  if (snapshot === undefined || cache.checkpointById(namespace, reference) !== undefined) return reference;
  const parsed = isPinnedReference(reference) ? parseSnapshotReference(reference) : { name };
  return findVersion(snapshot, parsed).checkpointId;
}

/**
 * Every text by which a Sandbox refers to where its contents come from: ids of checkpoints, and named snapshots with or
 * without a version. What any of them means must not be removed under it.
 */
export function originReferences({ metadata, spec, status }: Sandbox): string[] {
  const { restoredFrom = "", rollback } = status?.ramet ?? {};
  const rollbackTo = metadata.annotations?.[annotations.rollbackTo] ?? "";
  const others = [rollbackTo, restoredFrom, rollback?.checkpointId ?? ""].filter((text) => text !== "");
  return [...new Set([...namedBy(metadata.annotations), ...templateOriginReferences(spec.template), ...others])];
}

/** The same of a Pod template, of a set or a SandboxTemplate. It is schemaless in the API, so anything may stand there. */
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
