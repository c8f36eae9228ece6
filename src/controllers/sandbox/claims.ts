import * as z from "zod";
import { claimName } from "../../api/cell/volume-claims.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { ObjectMeta } from "../../api/schema/metadata.ts";
import { RametError } from "../../base/errors.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { controllerOf, type KubeManifest } from "../../kube/object.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";
import { coreResources } from "../../kube/resource-ref.ts";

/** The parts of a PersistentVolumeClaim that Ramet reads. */
export const Claim = z.looseObject({
  metadata: ObjectMeta,
  spec: z.looseObject({
    accessModes: z.array(z.string()).optional(),
    storageClassName: z.string().optional(),
    volumeMode: z.string().optional(),
    resources: z.unknown().optional(),
  }),
});
export type Claim = z.infer<typeof Claim>;

export function claimResource(client: KubeClient): ResourceClient<Claim> {
  return client.resource(coreResources.persistentVolumeClaims, (value) => Claim.parse(value));
}

/**
 * Creates the PersistentVolumeClaims `<template>-<sandbox>` that the sandbox's Pod mounts. The Sandbox owns them: they outlive
 * its Pods, so a resumed sandbox has its volumes, and are deleted with the Sandbox.
 * @param except the volumes that mount other claims
 * @throws RametError `InvalidArgument` with the field of an invalid template; `AlreadyExists` if another object owns a claim
 */
export async function createClaims(
  claims: ResourceClient<Claim>,
  sandbox: Sandbox,
  { templates, except }: { templates: readonly Record<string, unknown>[]; except: ReadonlyMap<string, string> },
): Promise<Claim[]> {
  const manifests = templates.flatMap((template, index) => {
    const { name, spec, metadata } = parseTemplate(template, index);
    return except.has(name) ? [] : [manifest(sandbox, claimName(name, sandbox.metadata.name), { metadata, spec })];
  });
  return Promise.all(manifests.map((one) => createClaim(claims, sandbox, one)));
}

/**
 * Creates claims like existing ones, but empty. The Sandbox owns them.
 * @param copies the existing claim by the name of the new one
 * @throws RametError `NotFound` if the existing one was deleted; `AlreadyExists` if another object owns a claim
 */
export async function copyClaims(
  claims: ResourceClient<Claim>,
  sandbox: Sandbox,
  copies: ReadonlyMap<string, string>,
): Promise<Claim[]> {
  const { namespace } = sandbox.metadata;
  return Promise.all(
    [...copies].map(async ([name, like]) => {
      const { accessModes, storageClassName, volumeMode, resources } = (await claims.get({ namespace, name: like }))
        .spec;
      const spec = { accessModes, storageClassName, volumeMode, resources };
      return createClaim(claims, sandbox, manifest(sandbox, name, { spec }));
    }),
  );
}

/**
 * Makes the Sandbox one of the owners of the claims of another one, so that they are not deleted before it. A claim without owners
 * was made by a user, who deletes it.
 * @throws RametError `NotFound` if a claim was deleted, `Conflict` if it has changed: requeue the sandbox
 */
export async function shareClaims(
  claims: ResourceClient<Claim>,
  { metadata }: Sandbox,
  names: readonly string[],
): Promise<Claim[]> {
  const { namespace, name: sandbox, uid } = metadata;
  return Promise.all(
    names.map(async (name) => {
      const claim = await claims.get({ namespace, name });
      const { ownerReferences = [], resourceVersion, uid: claimUid } = claim.metadata;
      if (ownerReferences.length === 0 || ownerReferences.some((owner) => owner.uid === uid)) return claim;
      const owners = [...ownerReferences, { apiVersion, kind: "Sandbox", name: sandbox, uid }];
      return claims.mergePatch(claim.metadata, {
        metadata: { uid: claimUid, resourceVersion, ownerReferences: owners },
      });
    }),
  );
}

/**
 * Deletes the claims that only this Sandbox owns, and leaves those that others own too. Kubernetes' garbage collector does the
 * same, but not every cluster has one. Can be repeated.
 */
export async function releaseClaims(
  claims: ResourceClient<Claim>,
  { metadata }: Sandbox,
  names: readonly string[],
): Promise<void> {
  await Promise.all(
    names.map(async (name) => {
      const claim = await claims.find({ namespace: metadata.namespace, name });
      const { ownerReferences = [], resourceVersion, uid, deletionTimestamp } = claim?.metadata ?? {};
      if (claim === undefined || deletionTimestamp !== undefined) return;
      const others = ownerReferences.filter((owner) => owner.uid !== metadata.uid);
      if (others.length === ownerReferences.length) return;
      if (others.length === 0) await claims.delete(claim.metadata, { uid: claim.metadata.uid });
      else await claims.mergePatch(claim.metadata, { metadata: { uid, resourceVersion, ownerReferences: others } });
    }),
  );
}

async function createClaim(
  claims: ResourceClient<Claim>,
  { metadata, status }: Sandbox,
  made: KubeManifest,
): Promise<Claim> {
  const at = { namespace: metadata.namespace, name: made.metadata.name ?? "" };
  // Each resume creates a Pod, and the claims already exist then.
  const found = (await claims.find(at)) ?? (await claims.create(made).catch(existing));
  // A user may have created a claim again that was deleted while the sandbox was paused.
  const wasOurs = status?.ramet?.claims?.includes(at.name) === true && controllerOf(found) === undefined;
  if (wasOurs || controllerOf(found)?.uid === metadata.uid) return found;
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

function parseTemplate(template: Record<string, unknown>, index: number) {
  const parsed = ClaimTemplate.safeParse(template);
  if (parsed.success) {
    const { name, ...metadata } = parsed.data.metadata;
    return { name, metadata, spec: parsed.data.spec };
  }
  const [issue] = parsed.error.issues;
  const field = `spec.volumeClaimTemplates[${index}].${issue?.path.join(".") ?? ""}`;
  throw new RametError("InvalidArgument", `${field}: ${issue?.message ?? "is invalid"}`, {
    hint: "Write it as a PersistentVolumeClaim: metadata.name and spec",
  });
}

function manifest(
  { metadata: { name: sandbox, namespace, uid } }: Sandbox,
  name: string,
  {
    metadata: { labels, annotations } = {},
    spec,
  }: {
    metadata?: { labels?: Record<string, string> | undefined; annotations?: Record<string, string> | undefined };
    spec: object;
  },
): KubeManifest {
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: {
      name,
      namespace,
      ...(labels && { labels }),
      ...(annotations && { annotations }),
      ownerReferences: [
        { apiVersion, kind: "Sandbox", name: sandbox, uid, controller: true, blockOwnerDeletion: true },
      ],
    },
    spec,
  };
}
