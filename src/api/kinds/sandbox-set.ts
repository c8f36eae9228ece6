import * as z from "zod";
import { defineKind } from "../schema/kind.ts";
import { Conditions, ObservedGeneration } from "../schema/metadata.ts";
import { int32, withRules } from "../schema/rules.ts";
import { Problems } from "../schema/problem.ts";
import {
  contentFields,
  IntOrPercent,
  oneTemplate,
  PauseStrategy,
  Runtimes,
  selectedVolumes,
  templateFields,
} from "./sandbox-parts.ts";

export const SandboxSetSpec = withRules(
  z.object({
    // OpenKruise Agents rejects a negative number in a webhook.
    replicas: int32.min(0).describe("The number of unclaimed sandboxes to keep ready."),
    pauseStrategy: PauseStrategy.optional(),
    ...contentFields,
    runtimes: Runtimes.optional(),
    ...templateFields,
    scaleStrategy: z
      .object({
        maxUnavailable: IntOrPercent.optional().describe(
          "The most sandboxes that are not ready, as a number or a share.",
        ),
      })
      .optional()
      .describe("Limits how many sandboxes start at the same time."),
    updateStrategy: z
      .object({
        maxUnavailable: IntOrPercent.optional().describe("The most sandboxes that are replaced at the same time."),
      })
      .optional()
      .describe("How sandboxes are replaced when the template changes."),
  }),
  [oneTemplate, selectedVolumes],
);
export type SandboxSetSpec = z.infer<typeof SandboxSetSpec>;

export const SandboxSetStatus = z.object({
  observedGeneration: ObservedGeneration,
  replicas: int32.describe("The number of unclaimed sandboxes."),
  availableReplicas: int32.describe("The number of unclaimed sandboxes that are ready."),
  updateRevision: z.string().optional().describe("The revision of the template as it is now."),
  currentRevision: z.string().optional().describe("The revision of the template before the update."),
  updatedReplicas: int32.optional().describe("The number of unclaimed sandboxes of updateRevision."),
  updatedAvailableReplicas: int32.optional().describe("The number of those that are ready."),
  conditions: Conditions.optional(),
  selector: z.string().optional().describe("The labels that select the set's Pods, for autoscalers."),
  ramet: z
    .object({ problems: Problems })
    .optional()
    .describe("Fields that Ramet adds to the status of OpenKruise Agents."),
});
export type SandboxSetStatus = z.infer<typeof SandboxSetStatus>;

export const sandboxSetKind = defineKind({
  kind: "SandboxSet",
  plural: "sandboxsets",
  singular: "sandboxset",
  shortNames: ["sbs"],
  description: "Keeps a number of unclaimed, ready sandboxes of one template and refills them when one is claimed.",
  spec: SandboxSetSpec,
  status: SandboxSetStatus,
  scale: {
    specReplicasPath: ".spec.replicas",
    statusReplicasPath: ".status.replicas",
    labelSelectorPath: ".status.selector",
  },
  columns: [
    { name: "Replicas", type: "integer", jsonPath: ".status.replicas" },
    { name: "Available", type: "integer", jsonPath: ".status.availableReplicas" },
    { name: "UpdatedReplicas", type: "integer", jsonPath: ".status.updatedReplicas" },
    { name: "UpdatedAvailableReplicas", type: "integer", jsonPath: ".status.updatedAvailableReplicas" },
    { name: "UpdateRevision", type: "string", jsonPath: ".status.updateRevision" },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export const SandboxSet = sandboxSetKind.object;
export type SandboxSet = z.infer<typeof SandboxSet>;
