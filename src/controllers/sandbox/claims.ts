import * as z from "zod";
import { claimName } from "../../api/pod/volume-claims.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { controllerOf, type KubeManifest } from "../../kube/object.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";
import { type Claim, ClaimSpec } from "../../kube/volumes/volumes.ts";

/** Completes the spec of a new claim of a clone. The name is that of the claim. */
export type FillClaim = (claim: string, spec: ClaimSpec) => Promise<ClaimSpec>;

/** A claim that the Sandbox owns: it outlives the Pods, so a resumed sandbox has its volumes, and is deleted with the Sandbox. */
export interface NewClaim {
  name: string;
  metadata?: ClaimTemplateMetadata;
  /** Called only if the claim does not exist. */
  spec: () => Promise<ClaimSpec>;
}

interface ChosenClaims {
  /** The claims that volumes mount instead of those of their templates. Only those that are filled are made. */
  chosen: ReadonlyMap<string, string>;
  /** The names of the claims that get data of a checkpoint. */
  filled: { has: (claim: string) => boolean };
  fill: FillClaim;
}

/**
 * The claims `<template>-<sandbox>` that the sandbox's Pod mounts.
 * @throws RametError `InvalidArgument` with the field of an invalid template
 */
export function claimsFromTemplates(
  { metadata: { name: sandbox } }: Sandbox,
  templates: readonly Record<string, unknown>[],
  { chosen, filled, fill }: ChosenClaims,
): NewClaim[] {
  return templates.flatMap((template, index) => {
    const { name: volume, spec, metadata } = parseTemplate(template, index);
    const name = chosen.get(volume) ?? claimName(volume, sandbox);
    return chosen.has(volume) && !filled.has(name) ? [] : [{ name, metadata, spec: () => fill(name, spec) }];
  });
}

/** A claim like an existing one, but empty. Its `spec` throws `NotFound` if the existing one was deleted. */
export function emptyClaimLike(
  claims: ResourceClient<Claim>,
  { metadata: { namespace } }: Sandbox,
  [name, existing]: readonly [string, string],
): NewClaim {
  const spec = async () => {
    const found = await claims.get({ namespace, name: existing });
    const { accessModes, storageClassName, volumeMode, resources } = found.spec;
    return { accessModes, storageClassName, volumeMode, resources };
  };
  return { name, spec };
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

/** @throws RametError `AlreadyExists` if another object owns a claim of this name */
export async function createClaim(
  claims: ResourceClient<Claim>,
  sandbox: Sandbox,
  { name, metadata: own, spec }: NewClaim,
): Promise<Claim> {
  const { metadata, status } = sandbox;
  const at = { namespace: metadata.namespace, name };
  // Each resume creates a Pod, and the claims already exist then.
  const found =
    (await claims.find(at)) ?? (await claims.ensure(manifest(sandbox, name, { metadata: own, spec: await spec() })));
  // A user may have created a claim again that was deleted while the sandbox was paused.
  const wasOurs = status?.ramet?.claims?.includes(at.name) === true && controllerOf(found) === undefined;
  if (wasOurs || controllerOf(found)?.uid === metadata.uid) return found;
  throw new RametError("AlreadyExists", `A PersistentVolumeClaim ${at.name} exists and belongs to something else`, {
    hint: "Delete it if its data is not needed, or give the sandbox another name",
  });
}

/** Only the fields that Ramet reads: Kubernetes validates the spec. */
const ClaimTemplate = z.looseObject({
  metadata: z.looseObject({
    name: z.string().min(1, "is required"),
    labels: z.record(z.string(), z.string()).optional(),
    annotations: z.record(z.string(), z.string()).optional(),
  }),
  spec: ClaimSpec,
});

interface ClaimTemplateMetadata {
  labels?: Record<string, string> | undefined;
  annotations?: Record<string, string> | undefined;
}

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
    metadata?: ClaimTemplateMetadata | undefined;
    spec: object;
  },
): KubeManifest {
  return {
    apiVersion: "v1",
    kind: "PersistentVolumeClaim",
    metadata: {
      name,
      namespace,
      ...defined({ labels, annotations }),
      ownerReferences: [
        { apiVersion, kind: "Sandbox", name: sandbox, uid, controller: true, blockOwnerDeletion: true },
      ],
    },
    spec,
  };
}
