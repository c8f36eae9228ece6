import { hasVolumes, type Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations } from "../../api/names/labels.ts";
import { defined } from "../../base/defined.ts";
import { type CloneResult, fork } from "../../operations/fork.ts";
import { objectOf } from "../../operations/objects.ts";
import { makeSandbox, type CreateSandbox } from "./create-sandbox.ts";
import type { ServiceParts } from "./parts.ts";
import { snapshotOf } from "./snapshots.ts";
import { hasWarmSet } from "./source.ts";

export interface ForkSandbox extends Omit<CreateSandbox, "source" | "requestId" | "namespace" | "annotations"> {
  /** A UUID for each clone. */
  requestIds: readonly string[];
}

/**
 * Captures a running sandbox with its memory and its volumes once, and creates clones of it, which succeed or fail independently. The
 * checkpoint expires after an hour: clones that are ready no longer need it.
 * @throws RametError the error of the capture
 */
export async function forkSandbox(
  parts: ServiceParts,
  source: Sandbox,
  { requestIds, ...create }: ForkSandbox,
): Promise<CloneResult[]> {
  const { owner, timeoutMilliseconds, signal } = create;
  const { namespace } = source.metadata;
  const settled = await fork(parts.objects, {
    checkpoint: snapshotOf(source, {
      owner,
      contents: ["memory", "filesystem"],
      volumes: hasVolumes(source),
      ttl: "1h",
    }),
    count: requestIds.length,
    // A warm sandbox needs the complete checkpoint, and is still faster than a new Pod.
    isEarly: () => !hasWarmSet(parts, source),
    clone: (checkpoint, at) => {
      const reference = checkpoint.status?.checkpointId ?? "";
      const requestId = requestIds[at];
      const request = {
        ...create,
        namespace,
        source: reference,
        annotations: inherited(source),
        ...defined({ requestId }),
      };
      return makeSandbox(parts, request, { kind: "checkpoint", reference, checkpoint });
    },
    goal: "serving",
    discards: true,
    // What cannot be deleted now ends when its time is over.
    onOrphan: () => undefined,
    timeoutMilliseconds,
    signal,
  });
  return objectOf(settled).clones;
}

/**
 * The annotations that a clone has of its source: its limits, which are who may reach its ports, and what it may reach.
 * @param others further ones
 */
export function inherited({ metadata }: Sandbox, others: readonly string[] = []): Record<string, string> {
  const limits = [annotations.publicPorts, annotations.requestHost, annotations.httpsPorts, annotations.egress];
  const kept = [...limits, ...others];
  const found = kept.map((name) => [name, metadata.annotations?.[name]] as const);
  return Object.fromEntries(
    found.filter((entry): entry is readonly [(typeof entry)[0], string] => entry[1] !== undefined),
  );
}
