import * as z from "zod";
import { Digest } from "../schema/digest.ts";
import { Conditions, ObservedGeneration, openString, Time } from "../schema/metadata.ts";
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
  version: z.int().min(1).describe("The number of the version."),
  digest: Digest.describe("The digest of its inputs."),
  checkpointId: z.string().describe("The id of its Checkpoint."),
  checkpointName: z.string().describe("The name of its Checkpoint."),
  createdAt: Time.describe("When the version was ready."),
  sizeBytes: z.int().min(0).optional().describe("The size of its Checkpoint."),
  buildMilliseconds: milliseconds.optional().describe("From the start of the build to the end of the capture."),
  engine: z.string().optional().describe("The engine that its memory needs. Absent without memory."),
  layers: z
    .boolean()
    .optional()
    .describe("Whether files of it are in layers, which its clones share. Absent: it was built by an earlier release."),
  replaces: atomicList(z.int().min(1))
    .max(100)
    .optional()
    .describe(
      "The versions with the same inputs and an earlier engine that it replaces. Their numbers still refer to it.",
    ),
  parent: z.string().optional().describe("The source: template/python, python@3, checkpoint/<id> or sandbox/a."),
  randomPrograms: OptionalTexts.describe(
    "Programs in its memory whose clones repeat random numbers, as far as they are recognized.",
  ),
  secrets: OptionalTexts.describe(
    "The Secrets whose values it can contain: those of its template, of its recipe and of its source. Every clone contains them.",
  ),
});
export type SnapshotVersion = z.infer<typeof SnapshotVersion>;

/** One step of the latest build. */
export const SnapshotStep = z.object({
  digest: Digest.describe("The digest of this step and all steps before it."),
  step: z.string().describe("The step in one line."),
  state: openString(stepStates).describe("Pending, Running, Succeeded or Failed."),
  cached: z.boolean().describe("Whether its result was restored from the cache instead of run."),
  milliseconds: milliseconds.optional().describe("How long it ran."),
  exitCode: z.int().optional().describe("The exit code of its command."),
  output: z.string().optional().describe("The last lines of its output."),
  error: z.string().optional().describe("Why it failed."),
});
export type SnapshotStep = z.infer<typeof SnapshotStep>;

/** The running build, or the last one. */
export const SnapshotBuild = z.object({
  digest: Digest.describe("The digest of its inputs."),
  startedAt: Time.describe("When the build started."),
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
  onLayers: z
    .boolean()
    .optional()
    .describe(
      "Whether the steps before the first start or waitFor are a layer, and a sandbox that booted on it runs the others.",
    ),
  interruptions: z
    .object({
      step: z.int().min(1).describe("The step, counted from 1."),
      count: z.int().min(1).describe("How often it was interrupted."),
      at: Time.describe("When it was last continued."),
    })
    .optional()
    .describe("How often in a row the controllers stopped while this step ran, and when it was last continued."),
  endedAt: Time.optional().describe("When the build ended."),
  failure: z
    .object({
      reason: z.string().describe("The reason of the condition Building."),
      message: z.string().describe("Why the build failed."),
      step: z.int().min(1).optional().describe("The failed step, counted from 1."),
      problem: Problem.optional().describe("The same for programs."),
    })
    .optional()
    .describe("Why the build failed. Absent: it runs or has succeeded."),
  waitsFor: ObjectName.optional().describe("The sandbox or the checkpoint that the build waits for now."),
});
export type SnapshotBuild = z.infer<typeof SnapshotBuild>;

export const NamedSnapshotStatus = z.object({
  observedGeneration: ObservedGeneration,
  message: z.string().optional().describe("The state of the named snapshot in one sentence."),
  version: z.int().min(1).optional().describe("The current version."),
  digest: Digest.optional().describe("The digest of the inputs of the current version."),
  checkpointId: z.string().optional().describe("The checkpoint id of the current version."),
  latestVersion: z.int().min(0).optional().describe("The highest version number ever used. Numbers are not reused."),
  versions: listBy("version", SnapshotVersion).optional().describe("The kept versions, oldest first."),
  steps: atomicList(SnapshotStep).optional().describe("The steps of the latest build."),
  progress: z.string().optional().describe("Finished steps and all steps: 2/4."),
  build: SnapshotBuild.optional().describe("The running build, or the last one."),
  conditions: Conditions.optional(),
  problems: Problems,
});
export type NamedSnapshotStatus = z.infer<typeof NamedSnapshotStatus>;
