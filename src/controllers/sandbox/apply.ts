import * as z from "zod";
import { cellPod } from "../../api/cell/cell-pod.ts";
import { claimName } from "../../api/cell/volume-claims.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations, finalizers } from "../../api/names/labels.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { RametError } from "../../base/errors.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { controllerOf, type KubeManifest } from "../../kube/object.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import { neededEngine } from "../common/engines.ts";
import { addFinalizer, removeFinalizer } from "../common/finalizer.ts";
import { pauseCheckpoint } from "../common/pause-checkpoint.ts";
import type { ResolvedTemplate } from "../common/resolve-template.ts";
import { callCell, isCellAction } from "./cell-calls.ts";
import type { SandboxAction, SandboxDependencies } from "./state.ts";

/** Carries out one action. Every action can be repeated: an existing or a deleted object is no error. */
export async function applyAction(
  sandbox: Sandbox,
  action: SandboxAction,
  dependencies: SandboxDependencies,
): Promise<void> {
  const { sandboxes, pods, checkpoints } = dependencies.informers;
  const { uid, resourceVersion } = sandbox.metadata;
  if (isCellAction(action)) {
    callCell(sandbox, action, dependencies);
    return;
  }
  switch (action.do) {
    case "addFinalizer":
      await dependencies.sandboxWrites.write(sandbox, () =>
        addFinalizer(sandboxes.resource, sandbox, finalizers.sandbox, patchWithFinalizer(action)),
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
      const postponed = action.shutdownTime && { shutdownTime: action.shutdownTime, pauseTime: action.shutdownTime };
      await sandboxes.resource.mergePatch(sandbox.metadata, {
        // Fails with a conflict if the timers have changed since the plan.
        metadata: { uid, resourceVersion },
        spec: { paused: true, ...postponed },
      });
      return;
    }
  }
}

/** The changes that are written together with the finalizer. */
function patchWithFinalizer({ borrowed, resolvedCheckpoint }: Extract<SandboxAction, { do: "addFinalizer" }>) {
  return {
    ...(borrowed && { spec: specOf(borrowed) }),
    ...(resolvedCheckpoint !== undefined && {
      metadata: { annotations: { [annotations.resolvedCheckpoint]: resolvedCheckpoint } },
    }),
  };
}

/** The template that was stored with the checkpoint, as fields of the sandbox's spec. */
function specOf({ template, volumeClaims }: ResolvedTemplate): object {
  return { template, ...(volumeClaims.length > 0 && { volumeClaimTemplates: volumeClaims }) };
}

async function createPod(
  sandbox: Sandbox,
  { template: { template, volumeClaims }, start, source, egress }: Extract<SandboxAction, { do: "createPod" }>,
  { client, informers, namespaces, engines, podOptions, podKeys, newPods, clock }: SandboxDependencies,
): Promise<void> {
  const { resource } = informers.pods;
  const startedAt = clock.monotonicMilliseconds();
  const owner = { metadata: sandbox.metadata, spec: { volumeClaimTemplates: volumeClaims } };
  // A claim of a set's sandbox may restore a checkpoint in place.
  const keepsWaiting = controllerOf(sandbox)?.kind === "SandboxSet";
  const manifest = cellPod(owner, template, {
    ...podOptions,
    ...podKeys(),
    cellImage: engines.imageFor(neededEngine(source?.parts ?? [])),
    userNamespace: podOptions.userNamespaceFor?.(template) === true,
    start,
    keepsWaiting,
    egress,
  });
  // Every Pod of a sandbox is created here, whoever made the Sandbox and wherever its template comes from.
  await namespaces.admit(sandbox.metadata.namespace, template);
  if (volumeClaims.length > 0) await createClaims(client, sandbox, volumeClaims);
  try {
    newPods.add(sandbox.metadata.uid, await resource.create(manifest), startedAt);
  } catch (error) {
    if (RametError.from(error).code !== "AlreadyExists") throw error;
    const found = await resource.find(sandbox.metadata);
    if (found === undefined) return;
    if (controllerOf(found)?.uid === sandbox.metadata.uid) newPods.add(sandbox.metadata.uid, found, startedAt);
    else {
      throw new RametError("AlreadyExists", `A Pod ${found.metadata.name} exists and belongs to something else`, {
        hint: "Delete it, or give the sandbox another name",
        cause: error,
      });
    }
  }
}

async function created(creation: Promise<unknown>): Promise<void> {
  try {
    await creation;
  } catch (error) {
    if (RametError.from(error).code !== "AlreadyExists") throw error;
  }
}

/**
 * Creates the PersistentVolumeClaims `<template>-<sandbox>` that the sandbox's Pod mounts. The Sandbox owns them: they outlive
 * its Pods, so a resumed sandbox has its volumes, and Kubernetes' garbage collector deletes them with the Sandbox.
 * @throws RametError `InvalidArgument` with the field of an invalid template; `AlreadyExists` if another object owns a claim
 */
async function createClaims(
  client: KubeClient,
  sandbox: Sandbox,
  templates: readonly Record<string, unknown>[],
): Promise<void> {
  await Promise.all(templates.map((template, index) => createClaim(client, sandbox, claim(sandbox, template, index))));
}

async function createClaim(client: KubeClient, { metadata }: Sandbox, manifest: KubeManifest): Promise<void> {
  const claims = client.resource(coreResources.persistentVolumeClaims);
  const at = { namespace: metadata.namespace, name: manifest.metadata.name ?? "" };
  // Each resume creates a Pod, and the claims already exist then.
  const found = (await claims.find(at)) ?? (await claims.create(manifest).catch(existing));
  if (controllerOf(found)?.uid === metadata.uid) return;
  throw new RametError("AlreadyExists", `A PersistentVolumeClaim ${at.name} exists and belongs to something else`, {
    hint: "Delete it if its data is not needed, or give the sandbox another name",
  });

  async function existing(error: unknown) {
    if (RametError.from(error).code !== "AlreadyExists") throw error;
    return claims.get(at);
  }
}

/** Only the fields that Ramet reads: Kubernetes validates the spec. */
const ClaimTemplate = z.looseObject({
  metadata: z.looseObject({
    name: z.string().min(1, "is required"),
    labels: z.record(z.string(), z.string()).optional(),
    annotations: z.record(z.string(), z.string()).optional(),
  }),
  spec: z.looseObject({}),
});

function claim({ metadata }: Sandbox, template: Record<string, unknown>, index: number): KubeManifest {
  const parsed = ClaimTemplate.safeParse(template);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const field = `spec.volumeClaimTemplates[${index}].${issue?.path.join(".") ?? ""}`;
    throw new RametError("InvalidArgument", `${field}: ${issue?.message ?? "is invalid"}`, {
      hint: "Write it as a PersistentVolumeClaim: metadata.name and spec",
    });
  }
  const { name, namespace, uid } = metadata;
  const { labels, annotations } = parsed.data.metadata;
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: {
      name: claimName(parsed.data.metadata.name, name),
      namespace,
      ...(labels && { labels }),
      ...(annotations && { annotations }),
      ownerReferences: [{ apiVersion, kind: "Sandbox", name, uid, controller: true, blockOwnerDeletion: true }],
    },
    spec: parsed.data.spec,
  };
}
