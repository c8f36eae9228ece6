import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import type { SandboxTemplateSpec } from "../../api/kinds/sandbox-template.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { findVersion, isPinnedReference, parseSnapshotReference } from "../../api/snapshot/snapshot-reference.ts";
import { acsCapturable, acsClone, acsKeptTemplate, acsTemplateOf } from "../../backends/acs/acs-clone.ts";
import { isCloneable } from "../../api/state/checkpoint.ts";
import { sandboxState } from "../../api/state/sandbox.ts";
import { RametError } from "../../base/errors.ts";
import { awaitSandbox } from "../../operations/await-sandbox.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { clusterObjects } from "../cluster/objects.ts";
import type { Io } from "../io.ts";
import { findObject } from "../object/user-kind.ts";
import { generateName, type VolumesFlag } from "../options.ts";
import { sandboxSource } from "./source.ts";
import type {
  CreateRequest,
  ForkPlan,
  ForkRequest,
  NewSandbox,
  Platform,
  Rollback,
  RollbackRequest,
} from "./platform.ts";

/**
 * The controllers of OpenKruise Agents and ACS. They know no named snapshots and add no template to a clone, so that the commands
 * resolve both.
 */
export function kruisePlatform(io: Io, cluster: Cluster): Platform {
  return {
    newSandbox: (request) => newSandbox(cluster, request),
    captureOf: (podName) => ({ podName }),
    idOf: () => undefined,
    keep: async (checkpoint, source) => {
      const template = acsKeptTemplate(checkpoint, await templateOfSandbox(cluster, source));
      await cluster.create(cluster.templates, template);
    },
    planFork: (source, request) => planFork(cluster, source, request),
    rollBack: (sandbox, request) => replaceByClone(io, cluster, sandbox, request),
    expectRestoreOnClaim: (from) => {
      throw new RametError(
        "InvalidArgument",
        "Cannot claim with --from beside other controllers: they restore no checkpoint into a sandbox of a set",
        {
          hint: `Create a clone with: ramet sandbox create --from ${from}; or claim from a set that follows the named snapshot`,
        },
      );
    },
    expectImport: () => {
      throw new RametError("NotSupported", "Cannot import volumes beside other controllers: they take the checkpoints");
    },
  };
}

async function newSandbox(cluster: Cluster, request: CreateRequest): Promise<NewSandbox> {
  refuseSharedVolumes(request);
  refusePaused(request);
  const { from, template, image, env = {} } = request;
  if (from === undefined) {
    const spec = await sandboxSource(cluster, { ...request, writtenOut: true });
    return { annotations: {}, spec: acsCapturable(spec) };
  }
  // The restored spec must be the source's.
  if (template !== undefined || image !== undefined || Object.keys(env).length > 0) {
    throw new RametError("InvalidArgument", "Cannot change the template of a clone beside other controllers", {
      hint: "Leave out --template, --image and --env",
    });
  }
  return cloneOf(cluster, from);
}

async function planFork(cluster: Cluster, source: Sandbox, request: ForkRequest): Promise<ForkPlan> {
  const { name } = source.metadata;
  if (sandboxState(source).is === "paused") {
    throw new RametError("SandboxNotReady", `Cannot fork the sandbox ${name}: it is paused`, {
      hint: `Resume it first with: ramet sandbox resume ${name}`,
    });
  }
  refuseSharedVolumes(request);
  refusePaused(request);
  const template = await templateOfSandbox(cluster, source);
  // They reject clones of an unfinished checkpoint.
  return { capture: { podName: name }, isEarly: false, clone: (checkpointId) => acsClone(template, checkpointId) };
}

/**
 * Replaces a sandbox by a clone with another name, because they restore no checkpoint into a running sandbox. The sandbox is deleted
 * when the clone is ready. If the clone fails, it is deleted, and the sandbox is as before.
 */
async function replaceByClone(io: Io, cluster: Cluster, sandbox: Sandbox, request: RollbackRequest): Promise<Rollback> {
  const { to, wait, timeoutMilliseconds, signal } = request;
  const { name, namespace, labels = {} } = sandbox.metadata;
  refuseSharedVolumes(request);
  if (!wait) {
    throw new RametError("InvalidArgument", "Cannot roll back with --no-wait beside other controllers", {
      hint: "The sandbox is replaced by a clone, and can only be deleted when the clone is ready: leave out --no-wait",
    });
  }
  const { annotations, spec } = await cloneOf(cluster, to);
  const metadata = { generateName: generateName(name), namespace, annotations, labels };
  const objects = clusterObjects(io, cluster);
  const created = await objects.sandboxes.create({ apiVersion, kind: "Sandbox", metadata, spec });
  const settled = await awaitSandbox(objects, created, { isNew: true, timeoutMilliseconds, signal });
  await objects.sandboxes.remove("failure" in settled ? created : sandbox);
  return { settled, sentence: `sandbox ${created.metadata.name} replaces ${name}, rolled back to ${to}` };
}

/** They give each clone new claims. */
function refuseSharedVolumes({ volumes }: VolumesFlag): void {
  if (volumes !== "Shared") return;
  throw new RametError(
    "InvalidArgument",
    "Cannot use --volumes Shared beside other controllers: their clones get new claims",
    { hint: "Leave out --volumes; the new claims are empty" },
  );
}

/** They start each clone. */
function refusePaused({ paused }: { paused?: boolean }): void {
  if (paused !== true) return;
  throw new RametError("InvalidArgument", "Cannot use --paused beside other controllers: they start each clone", {
    hint: "Leave out --paused, and pause the clones when they run",
  });
}

/**
 * @param text a checkpoint's id or name, or a named snapshot with or without a version
 * @throws RametError `NotFound` without such a checkpoint, or if its template is not known; `CheckpointNotReady`
 */
async function cloneOf(cluster: Cluster, text: string): Promise<NewSandbox> {
  const found = await findObject(cluster, "checkpoint", await idOf(cluster, text));
  const checkpoint = Checkpoint.parse(found);
  const { checkpointId, message = "its capture has not ended" } = checkpoint.status ?? {};
  if (!isCloneable(checkpoint) || checkpointId === undefined) {
    throw new RametError("CheckpointNotReady", `The checkpoint ${text} cannot be cloned: ${message}`);
  }
  return acsClone(await templateOf(cluster, checkpoint), checkpointId);
}

async function idOf({ snapshots, namespace, signal }: Cluster, text: string): Promise<string> {
  const [name = ""] = text.split("@");
  const snapshot = await snapshots.find({ namespace, name }, { signal });
  if (snapshot === undefined) return text;
  return findVersion(snapshot, isPinnedReference(text) ? parseSnapshotReference(text) : { name }).checkpointId;
}

/** The template that is kept under the name of the checkpoint, or else that of its source while this exists. */
async function templateOf(
  cluster: Cluster,
  { metadata: { name, namespace }, spec }: Checkpoint,
): Promise<SandboxTemplateSpec> {
  const read = { signal: cluster.signal };
  const kept = await cluster.templates.find({ namespace, name }, read);
  if (kept !== undefined) return kept.spec;
  const source = await cluster.sandboxes.find({ namespace, name: spec.podName ?? spec.sandboxName ?? "" }, read);
  if (source !== undefined) return templateOfSandbox(cluster, source);
  throw new RametError("NotFound", `The checkpoint ${name} cannot be cloned: the template of its source is not known`, {
    hint: `Create the SandboxTemplate ${name} in the namespace ${namespace} with the template of the checkpoint's source`,
  });
}

async function templateOfSandbox({ templates, signal }: Cluster, sandbox: Sandbox): Promise<SandboxTemplateSpec> {
  const { templateRef } = sandbox.spec;
  const at = { namespace: sandbox.metadata.namespace, name: templateRef?.name ?? "" };
  const named = templateRef && (await templates.get(at, { signal })).spec;
  return acsTemplateOf(sandbox, named);
}
