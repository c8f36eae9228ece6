import { volumeClaims, type VolumeClaim } from "../../api/pod/volume-claims.ts";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { Condition } from "../../api/schema/metadata.ts";
import type { CheckpointRecord } from "../../backends/checkpoint-record.ts";
import { setCondition } from "../../kube/conditions.ts";
import type { Cache } from "../cluster/cache.ts";
import { keptVolumes, listed } from "../volumes/restored-volumes.ts";
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

/**
 * The conditions and the record of a checkpoint whose source has claims: whether the checkpoint has the data of all of them, and
 * which it has not. Undefined: the source has none.
 */
export function withVolumes(
  { checkpoint, volumes, now }: { checkpoint: Checkpoint; volumes: VolumeClaim[]; now: Date },
  record: CheckpointRecord,
): { conditions: Condition[]; ramet: CheckpointRecord } | undefined {
  if (volumes.length === 0) return undefined;
  const parts = record.parts.flatMap(({ volume }) => volume ?? []);
  // A claim of several volumes is captured once, and the data of another sandbox's checkpoint is of another claim.
  const isCaptured = (one: VolumeClaim) =>
    parts.some(({ volume, claim }) => volume === one.volume || claim === one.claim);
  const hasAll = record.parts.some(({ contents, volume }) => contents.includes("volumes") && volume === undefined);
  const missing = hasAll ? [] : volumes.filter((one) => !isCaptured(one));
  const conditions = setCondition(
    checkpoint.status?.conditions ?? [],
    missing.length === 0 ? allCaptured : notCaptured(missing),
    now,
  );
  if (missing.length === 0) return { conditions, ramet: record };
  // The parts keep their consistency. There is none between them and volumes that continue to change.
  const { consistency: _, ...ramet } = record;
  return { conditions, ramet: { ...ramet, volumes: missing } };
}

const allCaptured = {
  type: volumesCaptured,
  status: "True",
  reason: "Captured",
  message: "The checkpoint has the data of all PersistentVolumeClaims of its source",
} as const;

function notCaptured(missing: readonly VolumeClaim[]) {
  return {
    type: volumesCaptured,
    status: "False",
    reason: "NotRequested",
    message:
      `The data of the PersistentVolumeClaims ${listed(missing.map(({ claim }) => claim))} is not in the checkpoint, ` +
      "because neither persistentContents nor volumes select them; only the parts in status.ramet.parts are restored",
  } as const;
}
