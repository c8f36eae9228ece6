import { annotations, restoreFromAnnotations } from "../../api/names/labels.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";

/**
 * Every text by which a Sandbox refers to where its contents come from: ids of checkpoints, and named snapshots with or
 * without a version. What any of them means must not be removed under it.
 */
export function originsNamed({ metadata, spec, status }: Sandbox): string[] {
  const { restoredFrom = "", rollback } = status?.ramet ?? {};
  const rollbackTo = metadata.annotations?.[annotations.rollbackTo] ?? "";
  const others = [rollbackTo, restoredFrom, rollback?.checkpointId ?? ""].filter((text) => text !== "");
  return [...new Set([...namedBy(metadata.annotations), ...originsNamedByTemplate(spec.template), ...others])];
}

/** The same of a Pod template, of a set or a SandboxTemplate. It is schemaless in the API, so anything may stand there. */
export function originsNamedByTemplate(template: Record<string, unknown> | undefined): string[] {
  const metadata = template?.["metadata"] as { annotations?: Record<string, unknown> } | null | undefined;
  return namedBy(metadata?.annotations);
}

function namedBy(values: Record<string, unknown> | undefined): string[] {
  return [...restoreFromAnnotations, annotations.resolvedCheckpoint].flatMap((key) => {
    const value = values?.[key];
    return typeof value === "string" && value !== "" ? [value] : [];
  });
}
