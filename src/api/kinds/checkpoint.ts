import * as z from "zod";
import { parseDuration, ttlPattern } from "../../base/duration.ts";
import { Digest } from "../cell/grant.ts";
import { RestoreSpec } from "../cell/restore-spec.ts";
import { Contents } from "../schema/contents.ts";
import { defineKind } from "../schema/kind.ts";
import { Conditions, openString, Time } from "../schema/metadata.ts";
import { SchemalessObject, withRules } from "../schema/rules.ts";

export const checkpointPhases = ["Pending", "Creating", "Succeeded", "Failed", "Terminating"] as const;
export type CheckpointPhase = (typeof checkpointPhases)[number];

/** Bounded, so that the API server can bound what the rule costs; two contents are all there are. */
const CheckpointContents = withRules(
  z
    .array(z.enum(["memory", "filesystem"]))
    .max(2)
    .meta({ "x-kubernetes-list-type": "atomic" }),
  [
    {
      cel: "self.size() == 0 || self.exists_one(content, content == 'filesystem')",
      message: "persistentContents must be [filesystem] or [memory, filesystem]",
      holds: (contents) => contents.length === 0 || contents.filter((content) => content === "filesystem").length === 1,
    },
  ],
).describe("What is kept: [filesystem] or [memory, filesystem]. Default: the sandbox's own, without ip; else both.");

export const CheckpointSpec = withRules(
  z.object({
    podName: z.string().min(1).optional().describe("The sandbox's Pod. Give podName or sandboxName."),
    sandboxName: z.string().min(1).optional().describe("The Sandbox. Give podName or sandboxName."),
    keepRunning: z
      .boolean()
      .optional()
      .describe("Whether the sandbox goes on afterwards; false ends it and its Pod is Succeeded. Default true."),
    persistentContents: CheckpointContents.optional(),
    ttlAfterFinished: z
      .string()
      .regex(ttlPattern, "must be a duration like 30s, 30m, 30h or 30d")
      .optional()
      .describe("When the Checkpoint is deleted after it has finished, like 30s, 30m, 30h or 30d. Unset: never."),
  }),
  [
    {
      cel: "has(self.podName) || has(self.sandboxName)",
      message: "podName or sandboxName is needed: it says which sandbox to capture",
      fieldPath: ".podName",
      holds: ({ podName, sandboxName }) => podName !== undefined || sandboxName !== undefined,
    },
    {
      // A sandbox's Pod has the sandbox's name, so both with one value are one wish; the reference takes both.
      cel: "!has(self.podName) || !has(self.sandboxName) || self.podName == self.sandboxName",
      message: "podName and sandboxName name different sandboxes: give one of the two",
      fieldPath: ".sandboxName",
      holds: ({ podName, sandboxName }) =>
        podName === undefined || sandboxName === undefined || podName === sandboxName,
    },
    { cel: "self == oldSelf", message: "spec is immutable: a checkpoint is one captured state. Create another one" },
  ],
);
export type CheckpointSpec = z.infer<typeof CheckpointSpec>;

/** How the parts of a checkpoint belong together in time. */
export const consistencies = ["crash", "quiesced", "atomic"] as const;

const Needs = z.object({
  architecture: z.string(),
  engine: z.string().describe("The gVisor build that captured it."),
  platform: z.string().describe("The gVisor platform."),
  cpuFeatures: z.array(z.string()).meta({ "x-kubernetes-list-type": "atomic" }).optional(),
});

/** What one part of a checkpoint contains: memory and files, or volumes. */
export const PartContents = z
  .array(z.enum(["memory", "filesystem", "volumes"]))
  .min(1)
  .meta({ "x-kubernetes-list-type": "atomic" });
export type PartContents = z.infer<typeof PartContents>;

/** One captured piece of a checkpoint. */
export const CheckpointPart = z.object({
  backend: z.string().describe("The backend that captured the part and restores it."),
  handle: z.string().describe("Identifies the part's data to its backend."),
  contents: PartContents,
  cutAt: Time.describe("When the content was captured."),
  readyAt: Time.optional().describe("When the data was durable."),
  sizeBytes: z.int().min(0),
  consistency: z.enum(consistencies),
  needs: Needs.optional().describe("What a node must have for a restore."),
});
export type CheckpointPart = z.infer<typeof CheckpointPart>;

/** What Ramet records of a checkpoint beyond the reference's status. Written field by field as they become known. */
export const RametCheckpointStatus = z.object({
  parts: z
    .array(CheckpointPart)
    .meta({ "x-kubernetes-list-type": "atomic" })
    .optional()
    .describe("The captured parts. The other fields are a summary of them."),
  backend: z.string().optional(),
  contents: Contents.optional(),
  manifestDigest: Digest.optional().describe("SHA-256 of the manifest in the store, checked before a restore."),
  sizeBytes: z.int().min(0).optional(),
  cutAt: Time.optional().describe("The instant of the capture."),
  readyAt: Time.optional().describe("The instant at which the data was durable."),
  pausedMilliseconds: z.number().min(0).optional().describe("How long the source stood still."),
  templateDigest: Digest.optional().describe("Of what a clone's template must have equal."),
  template: RestoreSpec.optional().describe("What templateDigest is the digest of, to name a difference."),
  image: z.string().optional(),
  imageDigest: z.string().optional(),
  consistency: z.enum(consistencies).optional(),
  needs: Needs.optional().describe("What a node must have for a restore."),
  phases: z.record(z.string(), z.number()).optional().describe("Milliseconds by phase, in order."),
});
export type RametCheckpointStatus = z.infer<typeof RametCheckpointStatus>;

export const CheckpointStatus = z.object({
  observedGeneration: z.int().optional(),
  phase: openString(checkpointPhases).optional(),
  message: z.string().optional(),
  checkpointId: z.string().optional(),
  completionTime: Time.optional(),
  conditions: Conditions.optional(),
  podTemplateDelta: SchemalessObject.optional(),
  ramet: RametCheckpointStatus.optional(),
});
export type CheckpointStatus = z.infer<typeof CheckpointStatus>;

export const checkpointKind = defineKind({
  kind: "Checkpoint",
  plural: "checkpoints",
  singular: "checkpoint",
  shortNames: ["cp"],
  description: "One captured state of one sandbox. Immutable.",
  spec: CheckpointSpec,
  status: CheckpointStatus,
  columns: [
    { name: "Status", type: "string", jsonPath: ".status.phase" },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
  ],
});
export const Checkpoint = checkpointKind.object;
export type Checkpoint = z.infer<typeof Checkpoint>;
export const CheckpointManifest = checkpointKind.manifest;
export type CheckpointManifest = z.input<typeof CheckpointManifest>;

/** The wish with its defaults filled in. */
export interface ResolvedCheckpointSpec {
  /** Of the Sandbox and of its Pod. */
  sandboxName: string;
  keepRunning: boolean;
  contents: Contents;
  /** After the end; undefined: kept until somebody deletes it. */
  ttlMilliseconds: number | undefined;
}

/**
 * What a Checkpoint asks for. Contents default to the sandbox's own without `ip`, and where those say nothing or not
 * `filesystem`, to memory and filesystem: memory alone is no checkpoint.
 * @param sandboxContents `spec.persistentContents` of the source
 * @throws RametError `InvalidArgument` for a TTL that is no duration
 */
export function resolveCheckpointSpec(
  spec: CheckpointSpec,
  sandboxContents: readonly string[] = [],
): ResolvedCheckpointSpec {
  const wished = spec.persistentContents?.length ? spec.persistentContents : sandboxContents;
  const memory = wished.includes("memory") || !wished.includes("filesystem");
  return {
    sandboxName: spec.sandboxName ?? spec.podName ?? "",
    keepRunning: spec.keepRunning ?? true,
    contents: memory ? ["memory", "filesystem"] : ["filesystem"],
    ttlMilliseconds:
      spec.ttlAfterFinished === undefined ? undefined : parseDuration(spec.ttlAfterFinished, "spec.ttlAfterFinished"),
  };
}
