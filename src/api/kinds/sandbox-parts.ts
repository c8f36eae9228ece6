import * as z from "zod";
import { type Rule, SchemalessList, SchemalessObject } from "../schema/rules.ts";

/** Parts that Sandbox, SandboxSet and SandboxTemplate have in common. */

export const PauseStrategy = z.object({
  type: z
    .enum(["Stop", "Hibernate"])
    .optional()
    .describe("Stop ends the Pod and keeps volumes only; Hibernate keeps what persistentContents says."),
  hibernateStrategy: z.object({ type: z.string().optional().describe("Snapshot.") }).optional(),
});
export type PauseStrategy = z.infer<typeof PauseStrategy>;

/** What a sandbox keeps over a pause. `ip` is a wish that a checkpoint ignores. */
export const PersistentContents = z
  .array(z.enum(["ip", "memory", "filesystem"]))
  .meta({ "x-kubernetes-list-type": "atomic" })
  .describe("What is kept over a pause, and by default in a checkpoint: ip, memory, filesystem.");
export type PersistentContents = z.infer<typeof PersistentContents>;

export const Runtimes = z
  .array(z.object({ name: z.string() }))
  .meta({ "x-kubernetes-list-type": "atomic" })
  .describe("Sidecars to add: csi, agent-runtime, traffic-proxy.");

export const TemplateRef = z.object({
  name: z.string().describe("A SandboxTemplate of the same namespace."),
  kind: z.string().optional(),
  apiVersion: z.string().optional(),
});
export type TemplateRef = z.infer<typeof TemplateRef>;

/** The Pod that a sandbox is made from: given here or named. */
export const templateFields = {
  templateRef: TemplateRef.optional().describe("Names the SandboxTemplate to use. Not together with template."),
  template: SchemalessObject.optional().describe("A Pod template: metadata and spec. Not together with templateRef."),
  volumeClaimTemplates: SchemalessList.optional().describe(
    "PersistentVolumeClaims, one each per sandbox, named <template>-<sandbox>.",
  ),
};

export const oneTemplate: Rule<{ template?: unknown; templateRef?: unknown }> = {
  cel: "!(has(self.template) && has(self.templateRef))",
  message: "template and templateRef exclude each other: give one of the two",
  fieldPath: ".templateRef",
  holds: ({ template, templateRef }) => template === undefined || templateRef === undefined,
};

/** An int or a percentage, as Kubernetes' rollouts take it. */
export const IntOrPercent = z
  .union([z.int(), z.string()])
  .meta({ crd: { "x-kubernetes-int-or-string": true, anyOf: [{ type: "integer" }, { type: "string" }] } });

/** A Pod of the sandbox's name is made, whose name is its host name: so no more than a DNS label. */
export const sandboxName: Rule<{ metadata: { name?: string | undefined } }> = {
  cel: "self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
  message:
    "metadata.name must be a DNS label (lower-case letters, digits and '-', at most 63 characters): the sandbox's Pod and host name are made from it",
  holds: ({ metadata: { name } }) =>
    name === undefined || (name.length <= 63 && /^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/.test(name)),
};
