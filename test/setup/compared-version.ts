import { Checkpoint, checkpointKind } from "../../src/api/kinds/checkpoint.ts";
import type { SnapshotVersion } from "../../src/api/kinds/named-snapshot-status.ts";
import { NamedSnapshot, namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import type { LayerRef } from "../../src/api/wire/grant.ts";
import type { ComparedVersion } from "../../src/api/snapshot/diff-versions.ts";

/** A version of the named snapshot `data` in the namespace `t`, as the controllers record it. */
export function comparedVersion(
  number: number,
  annotations: Record<string, string>,
  {
    layers,
    contents,
    ...fields
  }: Partial<Omit<SnapshotVersion, "layers">> & {
    layers?: readonly LayerRef[];
    contents?: ("memory" | "filesystem")[];
  } = {},
): ComparedVersion {
  const made = {
    namespace: "t",
    uid: `uid-${number}`,
    resourceVersion: "1",
    creationTimestamp: "2026-01-01T00:00:00Z",
  };
  const version: SnapshotVersion = {
    version: number,
    digest: `sha256:${`${number}`.repeat(64).slice(0, 64)}`,
    checkpointId: `c-${number}`,
    checkpointName: `data-${number}`,
    createdAt: made.creationTimestamp,
    ...fields,
  };
  const part = { backend: "cell", handle: "a", contents: ["filesystem"], cutAt: made.creationTimestamp, sizeBytes: 1 };
  return {
    snapshot: NamedSnapshot.parse({
      apiVersion: namedSnapshotKind.apiVersion,
      kind: "NamedSnapshot",
      metadata: { name: "data", ...made },
      spec: { from: { template: { name: "python" } } },
      status: { versions: [version] },
    }),
    version,
    checkpoint: Checkpoint.parse({
      apiVersion: checkpointKind.apiVersion,
      kind: "Checkpoint",
      metadata: { name: version.checkpointName, annotations, ...made },
      spec: { sandboxName: "a" },
      status: {
        phase: "Succeeded",
        checkpointId: version.checkpointId,
        ramet: { contents: contents ?? ["filesystem"], parts: [{ ...part, consistency: "crash", layers }] },
      },
    }),
  };
}
