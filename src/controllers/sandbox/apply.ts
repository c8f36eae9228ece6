import { cellPod } from "../../api/cell-pod.ts";
import { containerSpec } from "../../api/container-spec.ts";
import { RametError } from "../../api/errors.ts";
import { finalizers } from "../../api/labels.ts";
import type { PodTemplateSpec } from "../../api/pod-template.ts";
import type { Sandbox } from "../../api/sandbox.ts";
import { controllerOf, keyOf } from "../../kube/object.ts";
import { addFinalizer, removeFinalizer } from "../finalizer.ts";
import { identityOf } from "../identity.ts";
import { pauseCheckpoint } from "../pause-checkpoint.ts";
import { createClaims } from "./claims.ts";
import type { SandboxDependencies } from "./dependencies.ts";
import type { ResolvedTemplate, SandboxAction } from "./state.ts";

/** Carries out one action. Each can be repeated, and what is done or gone already is no error. */
export async function applyAction(
  sandbox: Sandbox,
  action: SandboxAction,
  dependencies: SandboxDependencies,
): Promise<void> {
  const { sandboxes, pods, checkpoints } = dependencies.informers;
  const { uid, resourceVersion } = sandbox.metadata;
  switch (action.do) {
    case "addFinalizer":
      await dependencies.ownWrites.write(sandbox, () =>
        addFinalizer(
          sandboxes.resource,
          sandbox,
          finalizers.sandbox,
          action.borrowed && { spec: kept(action.borrowed) },
        ),
      );
      return;
    case "removeFinalizer":
      await removeFinalizer(sandboxes.resource, sandbox, finalizers.sandbox);
      return;
    case "createPod":
      await createPod(sandbox, action, dependencies);
      return;
    case "deletePod":
      await pods.resource.delete(action.pod.metadata, { uid: action.pod.metadata.uid });
      return;
    case "startSandbox":
      startSandbox(sandbox, action, dependencies);
      return;
    case "createPauseCheckpoint":
      await created(checkpoints.resource.create(pauseCheckpoint(sandbox, action.persistentContents)));
      return;
    case "deleteCheckpoint":
      await checkpoints.resource.delete(action.checkpoint.metadata, { uid: action.checkpoint.metadata.uid });
      return;
    case "deleteSandbox":
      await sandboxes.resource.delete(sandbox.metadata, { uid });
      return;
    case "setPaused": {
      const moved = action.shutdownTime && { shutdownTime: action.shutdownTime, pauseTime: action.shutdownTime };
      await sandboxes.resource.mergePatch(sandbox.metadata, {
        // A change of the timers that came in between goes first.
        metadata: { uid, resourceVersion },
        spec: { paused: true, ...moved },
      });
      return;
    }
  }
}

/** What a sandbox takes over of the template that was kept with its checkpoint. */
function kept({ template, volumeClaims }: ResolvedTemplate): object {
  return { template, ...(volumeClaims.length > 0 && { volumeClaimTemplates: volumeClaims }) };
}

async function createPod(
  sandbox: Sandbox,
  { template: { template, volumeClaims }, start }: Extract<SandboxAction, { do: "createPod" }>,
  { client, informers, credentials, podOptions, newPods, clock }: SandboxDependencies,
): Promise<void> {
  const { resource } = informers.pods;
  const startedAt = clock.monotonicMilliseconds();
  const owner = { metadata: sandbox.metadata, spec: { volumeClaimTemplates: volumeClaims } };
  const manifest = cellPod(owner, template, { ...podOptions, publicKey: credentials.publicKey, start });
  if (volumeClaims.length > 0) await createClaims(client, sandbox, volumeClaims);
  try {
    newPods.add(sandbox.metadata.uid, await resource.create(manifest), startedAt);
  } catch (error) {
    if (RametError.from(error).code !== "AlreadyExists") throw error;
    const found = await resource.find(sandbox.metadata);
    if (found === undefined) return;
    if (controllerOf(found)?.uid === sandbox.metadata.uid) newPods.add(sandbox.metadata.uid, found, startedAt);
    else {
      throw new RametError("AlreadyExists", `A Pod ${found.metadata.name} exists and is not this sandbox's`, {
        hint: "Delete it, or give the sandbox another name",
        cause: error,
      });
    }
  }
}

/** Boots or restores, beside the reconciles; the cell joins a call that comes twice. */
function startSandbox(
  sandbox: Sandbox,
  { pod, template, source }: Extract<SandboxAction, { do: "startSandbox" }>,
  { starts, backend, credentials, newPods, enqueue }: SandboxDependencies,
): void {
  const identity = identityOf(sandbox, literalEnvironment(template), credentials);
  const target = { sandboxUid: sandbox.metadata.uid, ip: pod.status?.podIP ?? "" };
  const call = async () => {
    const started = await (source === undefined
      ? backend.boot(target, identity)
      : backend.clone({ ...source, target, identity }));
    const bootMilliseconds = newPods.ageMilliseconds(pod.metadata.uid);
    return {
      ...started,
      ...(bootMilliseconds !== undefined && { bootMilliseconds }),
      ...(source && { checkpointId: source.handle.checkpointId }),
    };
  };
  starts.start(pod.metadata.uid, call, () => {
    enqueue(keyOf(sandbox.metadata));
  });
}

/** Values that stand in other objects are known to the cell, which has them from the kubelet. */
function literalEnvironment(template: PodTemplateSpec): Record<string, string> {
  return Object.fromEntries(containerSpec(template).spec.env.map(({ name, value }) => [name, value]));
}

async function created(creation: Promise<unknown>): Promise<void> {
  try {
    await creation;
  } catch (error) {
    if (RametError.from(error).code !== "AlreadyExists") throw error;
  }
}
