import { volumeClaims, claimVolumes } from "../../src/api/pod/volume-claims.ts";
import { annotations } from "../../src/api/names/labels.ts";
import { type SandboxTemplateSpec, sandboxTemplateKind } from "../../src/api/kinds/sandbox-template.ts";
import { PodTemplateSpec } from "../../src/api/schema/pod-template.ts";
import type { CheckResult, Values } from "./handler.ts";
import { type ClusterEnvironment, withCluster } from "./open-cluster.ts";
import { hasUnknown } from "./validate.ts";
import { type Checkpoint, checkpointKind } from "../../src/api/kinds/checkpoint.ts";
import { namedSnapshotKind } from "../../src/api/kinds/named-snapshot.ts";
import { findVersion, parseSnapshotReference } from "../../src/api/snapshot/snapshot-reference.ts";
import { RametError } from "../../src/base/errors.ts";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import { controllerOf } from "../../src/kube/object.ts";

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

/**
 * Reads the template that is stored with the checkpoint of a clone.
 * @param from a checkpoint id, or a named snapshot with or without a version
 * @throws RametError `NotFound`, `CheckpointNotReady`, or `InvalidArgument` for an invalid reference
 */
export async function checkpointTemplate(
  client: KubeClient,
  namespace: string,
  from: string,
): Promise<SandboxTemplateSpec> {
  const { metadata, status } = await checkpointOf(client, { namespace, from });
  const templates = client.of(sandboxTemplateKind);
  for (const name of [metadata.name, status?.checkpointId ?? metadata.name]) {
    const found = await templates.find({ namespace, name });
    if (found !== undefined && controllerOf(found)?.uid === metadata.uid) return found.spec;
  }
  throw new RametError("NotFound", `Cannot add ports: no template is stored with the checkpoint ${metadata.name}`, {
    hint: "Remove the argument ports, or use a checkpoint of a sandbox whose template declares them",
  });
}

/** An id takes precedence over a name, as in the controller. */
async function checkpointOf(
  client: KubeClient,
  { namespace, from }: { namespace: string; from: string },
  signal?: AbortSignal,
): Promise<Checkpoint> {
  const checkpoints = client.of(checkpointKind);
  const { items } = await checkpoints.list({ namespace, signal });
  const byId = items.find(({ status }) => status?.checkpointId === from);
  if (byId !== undefined) return byId;
  const reference = parseSnapshotReference(from);
  const snapshots = client.of(namedSnapshotKind);
  const snapshot = await snapshots.find({ namespace, name: reference.name }, { signal });
  if (snapshot === undefined) {
    throw new RametError("NotFound", `No checkpoint or named snapshot ${from} exists in the namespace ${namespace}`, {
      hint: `List them with: ramet checkpoint ls -n ${namespace}, and ramet snapshot ls -n ${namespace}`,
    });
  }
  return checkpoints.get({ namespace, name: findVersion(snapshot, reference).checkpointName }, { signal });
}
