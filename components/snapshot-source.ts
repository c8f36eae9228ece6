import { CustomResource, type Input } from "@pulumi/pulumi";
import type { NamedSnapshot } from "./named-snapshot.ts";
import { SandboxTemplate } from "./sandbox-template.ts";

/** What something is made from: a resource of this program, or what exists already. */
export type SnapshotSourceArgs =
  | SandboxTemplate
  | NamedSnapshot
  /** A kept version: by `version` or by `digest`. Without either, the current one. */
  | { snapshot: Input<string>; version?: Input<number>; digest?: Input<string> }
  /** A checkpoint, by its id. */
  | { checkpoint: Input<string> }
  /** A sandbox that runs; it is captured once and goes on. */
  | { sandbox: Input<string> };

/** For the API, and what is known of it for the digest. */
export interface ResolvedSnapshotSource {
  from: Input<Record<string, unknown>>;
  source: Input<Record<string, unknown>> | undefined;
}

export function resolveSource(from: SnapshotSourceArgs): ResolvedSnapshotSource {
  if (from instanceof SandboxTemplate)
    return { from: { template: { name: from.name } }, source: { template: from.spec } };
  if (from instanceof CustomResource) {
    return { from: { snapshot: { name: from.name } }, source: { snapshot: { digest: from.digest } } };
  }
  if ("checkpoint" in from) {
    const checkpoint = { checkpoint: { id: from.checkpoint } };
    return { from: checkpoint, source: checkpoint };
  }
  if ("sandbox" in from) return { from: { sandbox: { name: from.sandbox } }, source: undefined };
  const { snapshot: name, version, digest } = from;
  const pinned = { ...(version !== undefined && { version }), ...(digest !== undefined && { digest }) };
  return {
    from: { snapshot: { name, ...pinned } },
    source: digest === undefined ? undefined : { snapshot: { digest } },
  };
}
