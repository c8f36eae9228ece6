import * as z from "zod";
import { defineKind } from "../schema/kind.ts";
import { withRules } from "../schema/rules.ts";
import { contentFields, PauseStrategy, Runtimes, selectedVolumes, templateFields } from "./sandbox-parts.ts";

export const SandboxTemplateSpec = withRules(
  z.object({
    template: templateFields.template,
    volumeClaimTemplates: templateFields.volumeClaimTemplates,
    ...contentFields,
    runtimes: Runtimes.optional(),
    pauseStrategy: PauseStrategy.optional(),
  }),
  [selectedVolumes],
);
export type SandboxTemplateSpec = z.infer<typeof SandboxTemplateSpec>;

export const sandboxTemplateKind = defineKind({
  kind: "SandboxTemplate",
  plural: "sandboxtemplates",
  singular: "sandboxtemplate",
  shortNames: ["sbt"],
  description: "A template for sandboxes: a Pod template and related settings.",
  spec: SandboxTemplateSpec,
  columns: [
    // The templates of people have no owner; the others are kept for a checkpoint or belong to a set.
    { name: "Owner", type: "string", jsonPath: ".metadata.ownerReferences[0].name" },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export const SandboxTemplate = sandboxTemplateKind.object;
export type SandboxTemplate = z.infer<typeof SandboxTemplate>;
export const SandboxTemplateManifest = sandboxTemplateKind.manifest;
export type SandboxTemplateManifest = z.input<typeof SandboxTemplateManifest>;
