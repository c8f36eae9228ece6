import * as z from "zod";
import { Digest } from "../cell/grant.ts";
import { Conditions, openString, Time } from "../schema/metadata.ts";

export const stepStates = ["Pending", "Running", "Succeeded", "Failed"] as const;

/** Condition types and the reasons of each. */
export const namedSnapshotConditions = {
  Ready: ["VersionReady", "NoVersion", "VersionNotFound"],
  Building: [
    "StartingBuilder",
    "RunningStep",
    "CapturingStep",
    "CapturingVersion",
    "CapturingSource",
    "Built",
    "StepFailed",
    "BuilderFailed",
    "CaptureFailed",
    "InputMissing",
    "Cycle",
    "Suspended",
    "Pinned",
    "Deleting",
  ],
} as const;

const milliseconds = z.number().min(0);

/** One version: immutable, and backed by a Checkpoint. */
export const SnapshotVersion = z.object({
  version: z.int().min(1),
  digest: Digest.describe("Of what it was built from."),
  checkpointId: z.string(),
  checkpointName: z.string().describe("The Checkpoint."),
  createdAt: Time,
  sizeBytes: z.int().min(0).optional(),
  buildMilliseconds: milliseconds.optional().describe("From the beginning of the build to its Checkpoint."),
  parent: z
    .string()
    .optional()
    .describe("What it was built from: template/python, python@3, checkpoint/<id> or sandbox/a."),
  secrets: z
    .array(z.string())
    .meta({ "x-kubernetes-list-type": "atomic" })
    .optional()
    .describe(
      "Secrets that its recipe, or that of a version it was built from, has copied into it: every clone holds them.",
    ),
});
export type SnapshotVersion = z.infer<typeof SnapshotVersion>;

/** One step of the latest build. */
export const SnapshotStep = z.object({
  digest: Digest.describe("Of this step and all before it."),
  step: z.string().describe("In one line."),
  state: openString(stepStates),
  cached: z.boolean().describe("Whether its end was restored and not run."),
  milliseconds: milliseconds.optional(),
  exitCode: z.int().optional(),
  output: z.string().optional().describe("The last lines of what it printed."),
  error: z.string().optional(),
});
export type SnapshotStep = z.infer<typeof SnapshotStep>;

/** The build that is under way, or the last one. */
export const SnapshotBuild = z.object({
  digest: Digest.describe("Of what it is built from."),
  startedAt: Time,
  request: z.string().optional().describe("The annotation ramet.dev/build-request that asked for it."),
  attempt: z.int().min(1).describe("Counts builders: one that is lost is replaced, up to a bound."),
  builderUid: z.string().optional().describe("Of the Sandbox in which the steps run."),
  endedAt: Time.optional(),
  failure: z
    .object({
      reason: z.string(),
      message: z.string(),
      step: z.int().min(1).optional().describe("Counted from 1."),
    })
    .optional(),
});
export type SnapshotBuild = z.infer<typeof SnapshotBuild>;

export const NamedSnapshotStatus = z.object({
  observedGeneration: z.int().optional(),
  message: z.string().optional(),
  version: z.int().min(1).optional().describe("The current one."),
  digest: Digest.optional().describe("Of what the current version was built from."),
  checkpointId: z.string().optional().describe("Of the current version."),
  latestVersion: z.int().min(0).optional().describe("The highest number ever given; numbers do not come again."),
  versions: z
    .array(SnapshotVersion)
    .meta({ "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["version"] })
    .optional()
    .describe("Those that are kept, oldest first."),
  steps: z.array(SnapshotStep).meta({ "x-kubernetes-list-type": "atomic" }).optional(),
  progress: z.string().optional().describe("Steps that are done, of how many: 2/4."),
  build: SnapshotBuild.optional(),
  conditions: Conditions.optional(),
});
export type NamedSnapshotStatus = z.infer<typeof NamedSnapshotStatus>;
