import { volumeClaims, type VolumeClaim } from "../../api/cell/volume-claims.ts";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { Condition } from "../../api/schema/metadata.ts";
import type { CheckpointRecord } from "../../backends/checkpoint-record.ts";
import { setCondition } from "../../kube/conditions.ts";
import type { Cache } from "../common/cache.ts";
import { keptVolumes, listed } from "../common/restored-volumes.ts";
import type { Source } from "./state.ts";

/** The condition of a finished checkpoint whose source has PersistentVolumeClaims. */
const volumesCaptured = "VolumesCaptured";

/** The volumes of the source that are PersistentVolumeClaims. The kept template describes a source that no longer exists. */
export function volumesOfSource(
  checkpoint: Checkpoint,
  source: Source,
  cache: Pick<Cache, "templatesOwnedBy">,
): VolumeClaim[] {
  if (!("pod" in source)) return keptVolumes(checkpoint, cache);
  return volumeClaims(source.pod.spec.volumes ?? [], source.pod.metadata.name);
}

/** The conditions and the record of a checkpoint that has no part for the claims of its source. Undefined: nothing is missing. */
export function withoutVolumes(
  { checkpoint, volumes, now }: { checkpoint: Checkpoint; volumes: VolumeClaim[]; now: Date },
  record: CheckpointRecord,
): { conditions: Condition[]; ramet: CheckpointRecord } | undefined {
  if (volumes.length === 0 || record.parts.some(({ contents }) => contents.includes("volumes"))) return undefined;
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
          `The data of the PersistentVolumeClaims ${listed(volumes.map(({ claim }) => claim))} is not in the checkpoint: ` +
          "no backend captures volumes; only the parts in status.ramet.parts are restored",
      },
      now,
    ),
    ramet: { ...ramet, volumes },
  };
}
