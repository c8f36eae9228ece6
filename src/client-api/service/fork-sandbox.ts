import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { RametError } from "../../base/errors.ts";
import { fork } from "../../operations/fork.ts";
import { objectOf } from "../../operations/objects.ts";
import { makeSandbox, type CreateSandbox } from "./create-sandbox.ts";
import type { ServiceParts } from "./parts.ts";
import { snapshotOf } from "./snapshots.ts";
import { hasWarmSet } from "./source.ts";

export interface ForkSandbox extends Omit<CreateSandbox, "source" | "requestId" | "namespace"> {
  count: number;
}

/** One requested clone. They succeed or fail independently. */
export type ForkResult = { sandbox: Sandbox } | { error: RametError };

/**
 * Captures a running sandbox with its memory once, and creates clones of it. The checkpoint expires after an hour: clones that are
 * ready no longer need it.
 * @throws RametError the error of the capture
 */
export async function forkSandbox(
  parts: ServiceParts,
  source: Sandbox,
  { count, ...create }: ForkSandbox,
): Promise<ForkResult[]> {
  const { owner, timeoutMilliseconds, signal } = create;
  const { namespace } = source.metadata;
  const settled = await fork(parts.objects, {
    checkpoint: snapshotOf(source, { owner, contents: ["memory", "filesystem"], ttl: "1h" }),
    count,
    // A warm sandbox needs the complete checkpoint, and is still faster than a new Pod.
    isEarly: () => !hasWarmSet(parts, source),
    clone: (checkpoint) => {
      const reference = checkpoint.status?.checkpointId ?? "";
      const request = { ...create, namespace, source: reference };
      return makeSandbox(parts, request, { kind: "checkpoint", reference, checkpoint });
    },
    goal: "serving",
    discards: true,
    // What cannot be deleted now ends when its time is over.
    onOrphan: () => undefined,
    timeoutMilliseconds,
    signal,
  });
  return objectOf(settled).clones.map((clone) =>
    "object" in clone ? { sandbox: clone.object } : { error: clone.failure },
  );
}
