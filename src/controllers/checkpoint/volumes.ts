import { claimName } from "../../api/cell/cell-pod.ts";
import { volumeClaims } from "../../api/cell/volume-claims.ts";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { Condition } from "../../api/schema/metadata.ts";
import type { CheckpointRecord } from "../../backends/checkpoint-record.ts";
import { setCondition } from "../../kube/conditions.ts";
import type { Cache } from "../common/cache.ts";
import type { Source } from "./state.ts";

/** The condition of a finished checkpoint whose source has PersistentVolumeClaims. */
const volumesCaptured = "VolumesCaptured";

/** The PersistentVolumeClaims of the source. The kept template describes a source that no longer exists. */
export function claimsOfSource(
  { metadata }: Checkpoint,
  source: Source,
  { sandboxName, cache }: { sandboxName: string; cache: Pick<Cache, "templatesOwnedBy"> },
): string[] {
  if (!("problem" in source)) return volumeClaims(source.pod.spec.volumes ?? [], source.pod.metadata.name);
  return cache.templatesOwnedBy(metadata.uid).flatMap(({ spec }) => {
    const { template } = spec as { template?: { spec?: { volumes?: Record<string, unknown>[] } } };
    const own = (spec.volumeClaimTemplates ?? []).flatMap((claim) => {
      const name = (claim as { metadata?: { name?: unknown } }).metadata?.name;
      return typeof name === "string" ? [claimName(name, sandboxName)] : [];
    });
    return [...volumeClaims(template?.spec?.volumes ?? [], sandboxName), ...own];
  });
}

/** The conditions and the record of a checkpoint that has no part for the claims of its source. Undefined: nothing is missing. */
export function withoutVolumes(
  { checkpoint, claims, now }: { checkpoint: Checkpoint; claims: readonly string[]; now: Date },
  record: CheckpointRecord,
): { conditions: Condition[]; ramet: CheckpointRecord } | undefined {
  if (claims.length === 0 || record.parts.some(({ contents }) => contents.includes("volumes"))) return undefined;
  // The parts keep their consistency. There is none between them and volumes that continue to change.
  const { consistency: _, ...ramet } = record;
  return {
    conditions: setCondition(
      checkpoint.status?.conditions ?? [],
      {
        type: volumesCaptured,
        status: "False",
        reason: "NotSupported",
        message:
          `The data of the PersistentVolumeClaims ${claims.join(", ")} is not in the checkpoint: ` +
          "no backend captures volumes; only the parts in status.ramet.parts are restored",
      },
      now,
    ),
    ramet,
  };
}
