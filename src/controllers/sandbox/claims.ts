import { z } from "zod";
import { claimName } from "../../api/cell/cell-pod.ts";
import { RametError } from "../../base/errors.ts";
import { apiVersion } from "../../api/schema/kind.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { controllerOf, type KubeManifest } from "../../kube/object.ts";
import { coreResources } from "../../kube/resource-ref.ts";

/**
 * Makes the PersistentVolumeClaims `<template>-<sandbox>` that the sandbox's Pod mounts. They belong to the Sandbox: they
 * outlive its Pods, so a paused sandbox finds its volumes again, and go with it by Kubernetes' garbage collector.
 * @throws RametError `InvalidArgument` naming the template that is none; `AlreadyExists` for a claim that is another's
 */
export async function createClaims(
  client: KubeClient,
  sandbox: Sandbox,
  templates: readonly Record<string, unknown>[],
): Promise<void> {
  await Promise.all(templates.map((template, index) => createClaim(client, sandbox, claim(sandbox, template, index))));
}

async function createClaim(client: KubeClient, { metadata }: Sandbox, manifest: KubeManifest): Promise<void> {
  const claims = client.resource(coreResources.persistentVolumeClaims);
  const at = { namespace: metadata.namespace, name: manifest.metadata.name ?? "" };
  // A Pod is made for each resume, and the claims are there then.
  const found = (await claims.find(at)) ?? (await claims.create(manifest).catch(existing));
  if (controllerOf(found)?.uid === metadata.uid) return;
  throw new RametError("AlreadyExists", `A PersistentVolumeClaim ${at.name} exists and is not this sandbox's`, {
    hint: "Delete it if its data is not needed, or give the sandbox another name",
  });

  async function existing(error: unknown) {
    if (RametError.from(error).code !== "AlreadyExists") throw error;
    return claims.get(at);
  }
}

/** Kubernetes judges the spec. */
const ClaimTemplate = z.looseObject({
  metadata: z.looseObject({
    name: z.string().min(1, "is needed"),
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
    throw new RametError("InvalidArgument", `${field}: ${issue?.message ?? "is not legal"}`, {
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
