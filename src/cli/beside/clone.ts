import * as z from "zod";
import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { SandboxTemplateSpec } from "../../api/kinds/sandbox-template.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { controllersMode, systemNamespace } from "../../api/names/system-names.ts";
import { findVersion, isPinnedReference, parseSnapshotReference } from "../../api/snapshot/snapshot-reference.ts";
import { acsClone, type AcsClone } from "../../backends/acs/acs-clone.ts";
import { RametError } from "../../base/errors.ts";
import { ObjectMeta } from "../../kube/object.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { findObject } from "../object/user-kind.ts";
import type { VolumesFlag } from "../options.ts";

/** Whether other controllers own the sandboxes of the cluster, as its ConfigMap `ramet-mode` says. */
export async function isBeside({ client }: Cluster, signal: AbortSignal): Promise<boolean> {
  const maps = client.resource(coreResources.configMaps, (value) => ModeMap.parse(value));
  try {
    const found = await maps.find({ namespace: systemNamespace, name: controllersMode.configMap }, { signal });
    return found?.data[controllersMode.beside] !== undefined;
  } catch (error) {
    // The Role that is installed with the ConfigMap allows everyone to read it.
    if (RametError.from(error).code === "Forbidden") return false;
    throw error;
  }
}

const ModeMap = z.looseObject({ metadata: ObjectMeta, data: z.record(z.string(), z.string()).default({}) });

/** @throws RametError `InvalidArgument`: other controllers give each clone new claims */
export function refuseSharedVolumes({ volumes }: VolumesFlag): void {
  if (volumes !== "Shared") return;
  throw new RametError(
    "InvalidArgument",
    "Cannot use --volumes Shared beside other controllers: their clones get new claims",
    {
      hint: "Leave out --volumes; the new claims are empty",
    },
  );
}

/** @throws RametError `InvalidArgument`: other controllers start each clone */
export function refusePaused({ paused }: { paused?: boolean }): void {
  if (paused !== true) return;
  throw new RametError("InvalidArgument", "Cannot use --paused beside other controllers: they start each clone", {
    hint: "Leave out --paused, and pause the clones when they run",
  });
}

/**
 * A clone for other controllers. These know no named snapshots and add no template, so both are resolved here.
 * @param text a checkpoint's id or name, or a named snapshot with or without a version
 * @throws RametError `NotFound` without such a checkpoint, or if its template is not known; `CheckpointNotReady`
 */
export async function besideClone(cluster: Cluster, text: string, signal: AbortSignal): Promise<AcsClone> {
  const found = await findObject(cluster, "checkpoint", await idOf(cluster, text, signal), signal);
  const checkpoint = Checkpoint.parse(found);
  const { phase, checkpointId, message = "its capture has not ended" } = checkpoint.status ?? {};
  if (phase !== "Succeeded" || checkpointId === undefined) {
    throw new RametError("CheckpointNotReady", `The checkpoint ${text} cannot be cloned: ${message}`);
  }
  return acsClone(await templateOf(cluster, checkpoint, signal), checkpointId);
}

/** The template of a sandbox, with the fields that it takes from a SandboxTemplate. */
export async function templateOfSandbox(
  { templates }: Cluster,
  { metadata: { namespace }, spec }: Sandbox,
  signal: AbortSignal,
): Promise<SandboxTemplateSpec> {
  const { template, templateRef, volumeClaimTemplates, persistentContents, runtimes } = spec;
  const named = templateRef && (await templates.get({ namespace, name: templateRef.name }, { signal })).spec;
  const own = { template, volumeClaimTemplates, persistentContents, runtimes };
  return { ...named, ...Object.fromEntries(Object.entries(own).filter(([, value]) => value !== undefined)) };
}

async function idOf({ snapshots, namespace }: Cluster, text: string, signal: AbortSignal): Promise<string> {
  const [name = ""] = text.split("@");
  const snapshot = await snapshots.find({ namespace, name }, { signal });
  if (snapshot === undefined) return text;
  return findVersion(snapshot, isPinnedReference(text) ? parseSnapshotReference(text) : { name }).checkpointId;
}

/** The template that is kept under the name of the checkpoint, or else that of its source while this exists. */
async function templateOf(
  cluster: Cluster,
  { metadata: { name, namespace }, spec }: Checkpoint,
  signal: AbortSignal,
): Promise<SandboxTemplateSpec> {
  const kept = await cluster.templates.find({ namespace, name }, { signal });
  if (kept !== undefined) return kept.spec;
  const source = await cluster.sandboxes.find({ namespace, name: spec.podName ?? spec.sandboxName ?? "" }, { signal });
  if (source !== undefined) return templateOfSandbox(cluster, source, signal);
  throw new RametError("NotFound", `The checkpoint ${name} cannot be cloned: the template of its source is not known`, {
    hint: `Create the SandboxTemplate ${name} in the namespace ${namespace} with the template of the checkpoint's source`,
  });
}
