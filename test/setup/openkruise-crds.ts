import type { KubeClient } from "../../src/kube/kube-client.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { vi } from "vitest";

type Schema = Record<string, unknown>;

const group = "agents.kruise.io";

const text: Schema = { type: "string" };
const time: Schema = { type: "string", format: "date-time" };
const flag: Schema = { type: "boolean" };
const whole: Schema = { type: "integer", format: "int32" };
const generation: Schema = { type: "integer", format: "int64" };
const words: Schema = { type: "array", items: text, "x-kubernetes-list-type": "atomic" };
const map: Schema = { type: "object", additionalProperties: text };
const open: Schema = { type: "object", "x-kubernetes-preserve-unknown-fields": true };
const object = (properties: Schema, required: string[] = []): Schema => ({
  type: "object",
  properties,
  ...(required.length > 0 && { required }),
});
const list = (items: Schema): Schema => ({ type: "array", items });

const conditions = list(
  object(
    { type: text, status: text, reason: text, message: text, lastTransitionTime: time, observedGeneration: generation },
    ["type", "status"],
  ),
);
const templateRef = object({ name: text, kind: text, apiVersion: text }, ["name"]);
const pauseStrategy = object({ type: text, hibernateStrategy: object({ type: text }) });
const shared = {
  persistentContents: words,
  pauseStrategy,
  runtimes: list(object({ name: text }, ["name"])),
  template: open,
  volumeClaimTemplates: list(open),
};

/**
 * The kinds of OpenKruise Agents v1alpha1 that Ramet works beside, with the fields of its reference and its words `podInfo` and the
 * like, which have no enum. Written for these tests from the field tables: the real files have longer descriptions, more kinds and
 * more printer columns.
 */
export const openKruiseCrds = [
  crd("Sandbox", "sandboxes", ["sbx"], {
    spec: object({
      ...shared,
      paused: flag,
      shutdownTime: time,
      pauseTime: time,
      templateRef,
      lifecycle: open,
      upgradePolicy: object({ type: text }),
    }),
    status: object({
      observedGeneration: generation,
      phase: text,
      message: text,
      conditions,
      nodeName: text,
      sandboxIp: text,
      updateRevision: text,
      recycledCount: whole,
      podInfo: object({ annotations: map, labels: map, nodeName: text, podIP: text, podUID: text }),
    }),
  }),
  crd("SandboxSet", "sandboxsets", ["sbs"], {
    spec: object({ ...shared, replicas: whole, templateRef, scaleStrategy: open, updateStrategy: open }, ["replicas"]),
    status: object({
      observedGeneration: generation,
      replicas: whole,
      availableReplicas: whole,
      updatedReplicas: whole,
      updatedAvailableReplicas: whole,
      updateRevision: text,
      currentRevision: text,
      selector: text,
      conditions,
    }),
  }),
  crd("SandboxTemplate", "sandboxtemplates", ["sbt"], { spec: object(shared) }),
  crd("SandboxClaim", "sandboxclaims", ["sbc"], {
    spec: object({ templateName: text, replicas: whole, shutdownTime: time, claimTimeout: text }, ["templateName"]),
    status: object({ observedGeneration: generation, phase: text, message: text, claimedReplicas: whole, conditions }),
  }),
  crd("Checkpoint", "checkpoints", ["cp"], {
    spec: object({
      sandboxName: text,
      podName: text,
      keepRunning: flag,
      persistentContents: words,
      ttlAfterFinished: text,
    }),
    status: object({
      observedGeneration: generation,
      phase: text,
      message: text,
      checkpointId: text,
      completionTime: time,
      podTemplateDelta: open,
    }),
  }),
];

/** Creates the CRDs as their installer does, and waits until they are served. */
export async function installOpenKruiseCrds(client: KubeClient): Promise<void> {
  const crds = client.resource(coreResources.crds);
  for (const one of openKruiseCrds) await crds.create(one);
  for (const { spec } of openKruiseCrds) {
    const ref = { group, version: "v1alpha1", plural: spec.names.plural, kind: spec.names.kind, namespaced: true };
    await vi.waitFor(() => client.resource(ref).list(), { timeout: 30_000 });
  }
}

function crd(kind: string, plural: string, shortNames: string[], { spec, status }: { spec: Schema; status?: Schema }) {
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}`, annotations: { "controller-gen.kubebuilder.io/version": "v0.18.0" } },
    spec: {
      group,
      names: { kind, listKind: `${kind}List`, plural, singular: kind.toLowerCase(), shortNames },
      scope: "Namespaced",
      versions: [
        {
          name: "v1alpha1",
          served: true,
          storage: true,
          ...(status && { subresources: { status: {} } }),
          schema: {
            openAPIV3Schema: {
              type: "object",
              properties: {
                apiVersion: text,
                kind: text,
                metadata: { type: "object" },
                spec,
                ...(status && { status }),
              },
            },
          },
        },
      ],
    },
  };
}
