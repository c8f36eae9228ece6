import { Checkpoint, checkpointKind } from "../../../src/api/kinds/checkpoint.ts";
import { NamedSnapshot, namedSnapshotKind } from "../../../src/api/kinds/named-snapshot.ts";
import {
  SandboxTemplate,
  sandboxTemplateKind,
  type SandboxTemplateSpec,
} from "../../../src/api/kinds/sandbox-template.ts";
import { findVersion, parseSnapshotReference } from "../../../src/api/snapshot/snapshot-reference.ts";
import { RametError } from "../../../src/base/errors.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import { controllerOf } from "../../../src/kube/object.ts";
import { refOf } from "../open-cluster.ts";

/**
 * The template that was kept with the checkpoint that a clone is to start from.
 * @param from a checkpoint id, or a named snapshot with or without a version
 * @throws RametError `NotFound`, `CheckpointNotReady`, or `InvalidArgument` for a text that can name neither
 */
export async function checkpointTemplate(
  client: KubeClient,
  namespace: string,
  from: string,
): Promise<SandboxTemplateSpec> {
  const { metadata, status } = await checkpointOf(client, namespace, from);
  const templates = client.resource(refOf(sandboxTemplateKind), (value) => SandboxTemplate.parse(value));
  for (const name of [metadata.name, status?.checkpointId ?? metadata.name]) {
    const found = await templates.find({ namespace, name });
    if (found !== undefined && controllerOf(found)?.uid === metadata.uid) return found.spec;
  }
  throw new RametError(
    "NotFound",
    `No template was kept with the checkpoint ${metadata.name}, so no port can be added`,
    {
      hint: "Leave ports out, or start from a checkpoint of a sandbox whose template declares them",
    },
  );
}

/** An id goes before a name, as it does for the controller. */
async function checkpointOf(client: KubeClient, namespace: string, from: string): Promise<Checkpoint> {
  const checkpoints = client.resource(refOf(checkpointKind), (value) => Checkpoint.parse(value));
  const { items } = await checkpoints.list({ namespace });
  const byId = items.find(({ status }) => status?.checkpointId === from);
  if (byId !== undefined) return byId;
  const reference = parseSnapshotReference(from);
  const snapshots = client.resource(refOf(namedSnapshotKind), (value) => NamedSnapshot.parse(value));
  const snapshot = await snapshots.find({ namespace, name: reference.name });
  if (snapshot === undefined) {
    throw new RametError("NotFound", `Neither a checkpoint nor a named snapshot of ${namespace} is called ${from}`, {
      hint: `List them with: ramet checkpoint ls -n ${namespace}, and ramet snapshot ls -n ${namespace}`,
    });
  }
  return checkpoints.get({ namespace, name: findVersion(snapshot, reference).checkpointName });
}
