import * as z from "zod";
import { Digest } from "../schema/digest.ts";
import { Conditions, openString, Time } from "../schema/metadata.ts";
import { OptionalTexts, atomicList, listBy } from "../schema/rules.ts";
import { ObjectName, Problem, Problems } from "../schema/problem.ts";

export const stepStates = ["Pending", "Running", "Succeeded", "Failed"] as const;

/** Condition types and the reasons of each. `Reconciling` and `Stalled` have those of `Building`, and are absent unless they are True. */
export const namedSnapshotConditions = {
  Ready: ["VersionReady", "NoVersion", "VersionNotFound"],
  /** Whether the current version has the engine of new sandboxes. */
  EngineCurrent: [
    "EngineCurrent",
    "Upgrading",
    "UpgradeFailed",
    "UpgradeWaiting",
    "ManualUpgrade",
    "SourceUpgrading",
    "SourceBound",
    "VersionOutdated",
    "InputMissing",
    "Suspended",
    "Pinned",
  ],
  Building: [
    "BuildQuotaReached",
    "FetchQuotaReached",
    "StartingBuilder",
    "RunningStep",
    "CapturingStep",
    "CapturingVersion",
    "CapturingSource",
    "Built",
    "StepFailed",
    "BuilderFailed",
    "ControllersStopped",
    "CaptureFailed",
    "QuotaExceeded",
    "InputMissing",
    "VolumesNotCaptured",
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
  digest: Digest.describe("The digest of its inputs."),
  checkpointId: z.string(),
  checkpointName: z.string().describe("The name of its Checkpoint."),
  createdAt: Time,
  sizeBytes: z.int().min(0).optional(),
  buildMilliseconds: milliseconds.optional().describe("From the start of the build to the end of the capture."),
  engine: z.string().optional().describe("The engine that its memory needs. Absent without memory."),
  replaces: atomicList(z.int().min(1))
    .max(100)
    .optional()
    .describe(
      "The versions with the same inputs and an earlier engine that it replaces. Their numbers still refer to it.",
    ),
  parent: z.string().optional().describe("The source: template/python, python@3, checkpoint/<id> or sandbox/a."),
  secrets: OptionalTexts.describe(
    "The Secrets whose values it can contain: those of its template, of its recipe and of its source. Every clone contains them.",
  ),
});
export type SnapshotVersion = z.infer<typeof SnapshotVersion>;

/** One step of the latest build. */
export const SnapshotStep = z.object({
  digest: Digest.describe("The digest of this step and all steps before it."),
  step: z.string().describe("The step in one line."),
  state: openString(stepStates),
  cached: z.boolean().describe("Whether its result was restored from the cache instead of run."),
  milliseconds: milliseconds.optional(),
  exitCode: z.int().optional(),
  output: z.string().optional().describe("The last lines of its output."),
  error: z.string().optional(),
});
export type SnapshotStep = z.infer<typeof SnapshotStep>;

/** The running build, or the last one. */
export const SnapshotBuild = z.object({
  digest: Digest.describe("The digest of its inputs."),
  startedAt: Time,
  request: z.string().optional().describe("The value of the annotation ramet.dev/build-request that requested it."),
  attempt: z.int().min(1).describe("The number of the attempt. A lost builder is replaced, up to 3 attempts."),
  upgrade: z
    .object({
      of: z.int().min(1).describe("The version with an earlier engine."),
      cellImage: z.string().describe("The cell image whose engine the new version gets."),
    })
    .optional()
    .describe("Set if the build only captures a version again with the current engine."),
  builderUid: z.string().optional().describe("The UID of the Sandbox in which the steps run."),
  interruptions: z
    .object({ step: z.int().min(1), count: z.int().min(1), at: Time })
    .optional()
    .describe("How often in a row the controllers stopped while this step ran, and when it was last continued."),
  endedAt: Time.optional(),
  failure: z
    .object({
      reason: z.string(),
      message: z.string(),
      step: z.int().min(1).optional().describe("The failed step, counted from 1."),
      problem: Problem.optional().describe("The same for programs."),
    })
    .optional(),
  waitsFor: ObjectName.optional().describe("The sandbox or the checkpoint that the build waits for now."),
});
export type SnapshotBuild = z.infer<typeof SnapshotBuild>;

export const NamedSnapshotStatus = z.object({
  observedGeneration: z.int().optional(),
  message: z.string().optional(),
  version: z.int().min(1).optional().describe("The current version."),
  digest: Digest.optional().describe("The digest of the inputs of the current version."),
  checkpointId: z.string().optional().describe("The checkpoint id of the current version."),
  latestVersion: z.int().min(0).optional().describe("The highest version number ever used. Numbers are not reused."),
  versions: listBy("version", SnapshotVersion).optional().describe("The kept versions, oldest first."),
  steps: atomicList(SnapshotStep).optional(),
  progress: z.string().optional().describe("Finished steps and all steps: 2/4."),
  build: SnapshotBuild.optional(),
  conditions: Conditions.optional(),
  problems: Problems,
});
export type NamedSnapshotStatus = z.infer<typeof NamedSnapshotStatus>;
