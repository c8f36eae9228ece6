import { claimVolumes, volumeClaims } from "../../api/cell/volume-claims.ts";
import type { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { Condition } from "../../api/schema/metadata.ts";
import { PodTemplateSpec } from "../../api/schema/pod-template.ts";
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
    // A user may have changed the kept template. A restore reports what is wrong with it.
    const template = PodTemplateSpec.safeParse(spec.template).data;
    const volumes = [...(template?.spec.volumes ?? []), ...claimVolumes(spec.volumeClaimTemplates, sandboxName)];
    return volumeClaims(volumes, sandboxName);
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
          `The data of the PersistentVolumeClaims ${listed(claims)} is not in the checkpoint: ` +
          "no backend captures volumes; only the parts in status.ramet.parts are restored",
      },
      now,
    ),
    ramet,
  };
}

/** A message of a condition has at most 32,768 characters, and a name up to 253. */
const mostListed = 100;

function listed(claims: readonly string[]): string {
  const more = claims.length - mostListed;
  return claims.slice(0, mostListed).join(", ") + (more > 0 ? ` and ${more} more` : "");
}
