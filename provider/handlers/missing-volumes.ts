import { volumeClaims, claimVolumes } from "../../src/api/pod/volume-claims.ts";
import { annotations } from "../../src/api/names/labels.ts";
import type { SandboxTemplateSpec } from "../../src/api/kinds/sandbox-template.ts";
import { PodTemplateSpec } from "../../src/api/schema/pod-template.ts";
import type { CheckResult, Values } from "./handler.ts";
import { type ClusterEnvironment, withCluster } from "./open-cluster.ts";
import { checkpointOf } from "./sandbox-clone/checkpoint-template.ts";
import { hasUnknown } from "./validate.ts";

/** The claims of a template, by the names of their volumes. */
export function volumesOfTemplate({ template, volumeClaimTemplates }: SandboxTemplateSpec): string[] {
  const volumes = PodTemplateSpec.safeParse(template).data?.spec.volumes ?? [];
  return volumeClaims([...volumes, ...claimVolumes(volumeClaimTemplates, "")], "").map(({ volume }) => volume);
}

/** The volumes whose data a checkpoint does not contain. Empty if it is not known yet, or the cluster cannot be read. */
export async function volumesOfCheckpoint(env: ClusterEnvironment, { namespace, from }: Values): Promise<string[]> {
  if (typeof namespace !== "string" || typeof from !== "string" || hasUnknown([namespace, from])) return [];
  const find = withCluster(env, (client) =>
    checkpointOf(client, { namespace, from }, AbortSignal.timeout(lookUpMilliseconds)),
  );
  const found = await find.catch(() => undefined);
  return found?.status?.ramet?.volumes?.map(({ volume }) => volume) ?? [];
}

/** The failure of a check, so that a preview reports what the controllers would refuse. */
export function missingVolumes(volumes: readonly string[], { volumesOnRestore }: Values): CheckResult["failures"] {
  if (volumes.length === 0 || (volumesOnRestore !== undefined && volumesOnRestore !== null)) return [];
  const reason =
    `is required: the data of the volumes ${volumes.join(", ")} is not in the checkpoints; set it to "Empty" for new claims, or to ` +
    `"Shared" for the claims of the source (it becomes the annotation ${annotations.volumesOnRestore})`;
  return [{ property: "volumesOnRestore", reason }];
}

const lookUpMilliseconds = 5_000;
