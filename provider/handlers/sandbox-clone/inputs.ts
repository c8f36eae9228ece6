import { z } from "zod";
import { restoreFromAnnotations } from "../../../src/api/labels.ts";
import { parsePodTemplate, type PodTemplateSpec } from "../../../src/api/pod-template.ts";
import { sandboxKind, type SandboxManifest } from "../../../src/api/sandbox.ts";
import type { DiffTable } from "../diff-table.ts";
import { ownerAnnotation } from "../owner.ts";

const Port = z.int().min(1).max(65_535);

/** What the state of a stack keeps of a clone. */
export const SandboxCloneInputs = z.looseObject({
  name: z
    .string()
    .regex(
      /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/,
      "must be a DNS label: lower-case letters, digits and '-', at most 63",
    ),
  namespace: z.string().min(1),
  /** A checkpoint id, or a named snapshot with or without a version. */
  from: z.string().min(1),
  /** The SandboxTemplate's spec that the snapshot was built from, where the program knows it. */
  template: z.looseObject({ template: z.record(z.string(), z.unknown()).optional() }).optional(),
  /** Reachable at the sandbox's address; the first is that of the URL. */
  ports: z.array(Port).optional(),
  /** After which the sandbox is deleted: `8 hours`. */
  lifetime: z.string().optional(),
  timeout: z.string(),
  owner: z.string(),
});
export type SandboxCloneInputs = z.infer<typeof SandboxCloneInputs>;

/** A clone keeps what it was made from: for anything else another one is made. */
export const sandboxCloneDiff: DiffTable = {
  name: "immutable",
  namespace: "immutable",
  from: "immutable",
  ports: "immutable",
  lifetime: "mutable",
  template: "ignored",
  timeout: "ignored",
  owner: "ignored",
};

/** The object that is applied. Without a template, the controller takes the one that was kept with the checkpoint. */
export function manifestOf(inputs: SandboxCloneInputs, shutdownTime: string | undefined): SandboxManifest {
  const { name, namespace, from, owner, ports = [] } = inputs;
  const pod = inputs.template?.template;
  return {
    apiVersion: sandboxKind.apiVersion,
    kind: "Sandbox",
    metadata: { name, namespace, annotations: { [restoreFromAnnotations[0]]: from, [ownerAnnotation]: owner } },
    spec: {
      ...(pod !== undefined && ports.length > 0 && { template: withPorts(parsePodTemplate(pod), ports) }),
      ...(shutdownTime !== undefined && { shutdownTime }),
    },
  };
}

/** Only declared ports are reachable at the Pod's address; a restore does not compare them. */
function withPorts(template: PodTemplateSpec, ports: readonly number[]): PodTemplateSpec {
  const [main, ...others] = template.spec.containers;
  if (main === undefined) return template;
  const known = main.ports ?? [];
  const added = ports.filter((port) => !known.some(({ containerPort }) => containerPort === port));
  const all = [...known, ...added.map((containerPort) => ({ containerPort }))];
  return { ...template, spec: { ...template.spec, containers: [{ ...main, ports: all }, ...others] } };
}
