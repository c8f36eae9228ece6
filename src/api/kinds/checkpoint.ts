import * as z from "zod";
import { ttlPattern } from "../../base/duration.ts";
import { Digest } from "../schema/digest.ts";
import { RestoreSpec } from "../pod/restore-spec.ts";
import { VolumeClaim } from "../pod/volume-claims.ts";
import { defineKind } from "../schema/kind.ts";
import {
  Conditions,
  Contents,
  LeftOut,
  ObservedGeneration,
  openString,
  StatusMessage,
  Time,
} from "../schema/metadata.ts";
import { Problems } from "../schema/problem.ts";
import { OptionalFlag, OptionalText, OptionalTexts, atomicList, SchemalessObject, withRules } from "../schema/rules.ts";
import { ContentWord, mostContents, VolumeNames } from "./sandbox-parts.ts";
import { consistencies, VolumeImport } from "./volume-import.ts";

export const checkpointPhases = ["Pending", "Creating", "Succeeded", "Failed", "Terminating"] as const;
export type CheckpointPhase = (typeof checkpointPhases)[number];

/** The condition of a checkpoint that its namespace's quota does not allow: `False`, with the reason `QuotaExceeded`. */
export const withinQuota = "WithinQuota";

/**
 * The condition of a finished checkpoint whose data was missing or damaged: `False`, with the reason `DataMissing` or `DataDamaged`.
 * `True` after the data was found again. The phase stays `Succeeded`, because it is final.
 */
export const dataAvailable = "DataAvailable";

const CheckpointContents = withRules(atomicList(ContentWord).max(mostContents), [
  {
    cel: "!self.exists(content, content == 'memory') || self.exists(content, content == 'filesystem')",
    message: "persistentContents must have filesystem if it has memory: [filesystem] or [memory, filesystem]",
    holds: (contents) => !contents.includes("memory") || contents.includes("filesystem"),
  },
]).describe(
  "What the checkpoint keeps: [filesystem] or [memory, filesystem], and volumes with either or alone. Other words select nothing. Default: the sandbox's persistentContents; if it has neither memory nor filesystem, both.",
);

const CheckpointVolumes = VolumeNames.describe(
  "The volumes to capture, by their names in the sandbox's Pod; * is all that are PersistentVolumeClaims. Default: those of the sandbox's volumes, or, with volumes in persistentContents, all.",
);

/** The consistency that can be requested. A checkpoint whose files were flushed by the guest, but whose memory is not captured, is `quiesced`. */
const RequestedConsistency = z.enum(consistencies);
export type Consistency = z.infer<typeof RequestedConsistency>;

/** The effect of a failed command: the checkpoint fails too, or it is taken anyway and the status says so. */
const QuiesceFailure = z.enum(["Abort", "Continue"]);

const QuiesceCommand = z.object({
  command: atomicList(z.string().max(1024))
    .min(1)
    .max(16)
    .describe("The program and its arguments. It runs as the user of the sandbox's entrypoint."),
  timeoutSeconds: z.int().min(1).max(300).optional().describe("After this time the command is killed. Default 10."),
  onFailure: QuiesceFailure.optional().describe("Whether the checkpoint fails with the command. Default Abort."),
});
export type QuiesceCommand = z.infer<typeof QuiesceCommand>;

/** The fields that say how a sandbox is captured. */
const ofCaptures = [
  "podName",
  "sandboxName",
  "keepRunning",
  "persistentContents",
  "volumes",
  "consistency",
  "requireAtomic",
  "quiesce",
] as const;

export const CheckpointSpec = withRules(
  z.object({
    podName: z.string().min(1).optional().describe("The name of the sandbox's Pod. Set podName or sandboxName."),
    sandboxName: z.string().min(1).optional().describe("The name of the Sandbox. Set podName or sandboxName."),
    volumeImport: VolumeImport.optional(),
    keepRunning: OptionalFlag.describe(
      "Whether the sandbox continues after the capture. If false, the sandbox is stopped and its Pod becomes Succeeded. Default true.",
    ),
    persistentContents: CheckpointContents.optional(),
    volumes: CheckpointVolumes.optional(),
    consistency: RequestedConsistency.optional().describe(
      "How consistent the captured volumes are. crash: each as after a power failure. sync: what was written before the capture is in them. quiesced: the commands in quiesce run before and after. atomic: the sandbox is paused while its volumes and its memory are captured, so that they are of one moment. Default crash, quiesced with quiesce, or atomic with requireAtomic.",
    ),
    quiesce: z
      .object({
        before: QuiesceCommand.optional().describe(
          "Runs before the capture, so that programs stop to change their data.",
        ),
        after: QuiesceCommand.optional().describe("Runs when the content is captured, also if the capture fails."),
      })
      .optional()
      .describe("Commands in the sandbox. After the end of a controller they run again, so they must be repeatable."),
    requireAtomic: OptionalFlag.describe(
      "Whether the checkpoint fails if it cannot be atomic. Otherwise status.ramet.consistencyNote says why it is not.",
    ),
    ttlAfterFinished: z
      .string()
      .regex(ttlPattern, "must be a duration like 30s, 30m, 30h or 30d")
      .optional()
      .describe("How long after it has finished the Checkpoint is deleted, like 30s, 30m, 30h or 30d. Default: never."),
  }),
  [
    {
      cel: "has(self.podName) || has(self.sandboxName) || has(self.volumeImport)",
      message: "podName or sandboxName is required: it names the sandbox to capture",
      fieldPath: ".podName",
      holds: ({ podName, sandboxName, volumeImport }) =>
        podName !== undefined || sandboxName !== undefined || volumeImport !== undefined,
    },
    {
      cel: `!has(self.volumeImport) || (${ofCaptures.map((field) => `!has(self.${field})`).join(" && ")})`,
      message: `volumeImport excludes ${ofCaptures.join(", ")}: nothing is captured`,
      fieldPath: ".volumeImport",
      holds: (spec) => spec.volumeImport === undefined || ofCaptures.every((field) => spec[field] === undefined),
    },
    {
      // A sandbox's Pod has the sandbox's name, so both may be set to one value, as in OpenKruise Agents.
      cel: "!has(self.podName) || !has(self.sandboxName) || self.podName == self.sandboxName",
      message: "podName and sandboxName name different sandboxes: set only one of them",
      fieldPath: ".sandboxName",
      holds: ({ podName, sandboxName }) =>
        podName === undefined || sandboxName === undefined || podName === sandboxName,
    },
    {
      cel: "!has(self.requireAtomic) || !self.requireAtomic || !has(self.consistency) || self.consistency == 'atomic'",
      message: "requireAtomic requires consistency atomic",
      fieldPath: ".consistency",
      holds: ({ consistency, requireAtomic }) =>
        requireAtomic !== true || consistency === undefined || consistency === "atomic",
    },
    {
      cel: "!has(self.quiesce) || !has(self.consistency) || self.consistency == 'quiesced'",
      message: "quiesce requires consistency quiesced",
      fieldPath: ".consistency",
      holds: ({ consistency, quiesce }) =>
        quiesce === undefined || consistency === undefined || consistency === "quiesced",
    },
    {
      cel: "self == oldSelf",
      message: "spec is immutable: a checkpoint is one captured state; create another Checkpoint",
    },
  ],
);
export type CheckpointSpec = z.infer<typeof CheckpointSpec>;

const Needs = z.object({
  architecture: z.string().describe("The architecture of the node's CPU, such as amd64."),
  engine: z.string().describe("The gVisor build that captured it."),
  engineId: OptionalText.describe(
    "The engine that memory needs: an id of the gVisor build and the guest build together.",
  ),
  guest: z.string().optional().describe("The digest of the guest that memory needs."),
  platform: z.string().describe("The gVisor platform."),
  cpuFeatures: OptionalTexts.describe("The CPU features that memory needs, as gVisor names them."),
});

/** The contents of one part of a checkpoint: memory and files, or volumes. */
export const PartContents = atomicList(z.enum(["memory", "filesystem", "volumes"])).min(1);
export type PartContents = z.infer<typeof PartContents>;

/** The volume that a part of a checkpoint holds, and what a claim needs to get its data. */
export const CapturedVolume = z.object({
  volume: z.string().describe("The name of the volume in the source's Pod."),
  claim: z.string().describe("The PersistentVolumeClaim that the source mounted; imported, the name of the volume."),
  snapshot: z.string().describe("The VolumeSnapshot, in the namespace of the Checkpoint."),
  groupSnapshot: OptionalText.describe(
    "The VolumeGroupSnapshot that captured it together with other volumes of its driver.",
  ),
  driver: z.string().describe("The CSI driver, which a claim's StorageClass must have too."),
  storageClassName: z.string().optional().describe("The StorageClass of the source's claim."),
  accessModes: atomicList(z.string()).describe("The access modes of the source's claim."),
  volumeMode: z.string().optional().describe("Filesystem or Block."),
  imported: z
    .enum(["Kept", "Owned"])
    .optional()
    .describe(
      "Of an imported volume. Kept: its data outlives the Checkpoint, unless this cluster has captured it. Owned: its data is deleted with the last Checkpoint of this cluster that has it.",
    ),
});
export type CapturedVolume = z.infer<typeof CapturedVolume>;

/** Layers of files that sandboxes share, by the checkpoints that hold them. */
export const Layers = atomicList(
  z.object({
    checkpointId: z.string().describe("The id of the checkpoint that holds the layer."),
    manifestDigest: Digest.describe("The digest of its manifest, which names its content."),
    sizeBytes: z.int().min(0).describe("The size of the layer."),
  }),
);

/** One captured piece of a checkpoint. */
export const CheckpointPart = z.object({
  backend: z.string().describe("The backend that captured the part and restores it."),
  handle: z.string().describe("Identifies the part's data to its backend."),
  contents: PartContents.describe("What the part contains."),
  cutAt: Time.describe("When the content was captured."),
  readyAt: Time.optional().describe("When the data became durable."),
  sizeBytes: z
    .int()
    .min(0)
    .describe("The size of the data; of a volume, that of the smallest claim that can get its data."),
  clonedBytes: z
    .int()
    .min(1)
    .optional()
    .describe(
      "How many of these bytes share blocks of the disk with what the source had written. Absent: all were copied.",
    ),
  pieces: atomicList(
    z.object({
      content: z.enum(["memory", "filesystem"]).describe("memory or filesystem."),
      sizeBytes: z.int().min(0).describe("Its size."),
      cutAt: Time.describe("When it was captured."),
      digest: Digest.describe("SHA-256 of the list of its files and their digests. Equal for equal data."),
    }),
  )
    .optional()
    .describe(
      "The memory and the files of the part. Memory includes files in memory, such as those in /dev/shm. Absent if encrypted, or captured by an earlier release.",
    ),
  consistency: z.enum(consistencies).describe("How consistent the content of the part is."),
  needs: Needs.optional().describe("What a node must have for a restore."),
  volume: CapturedVolume.optional().describe("Of a part that is a volume."),
  randomPrograms: atomicList(z.string())
    .optional()
    .describe("Programs in the memory of a version whose clones repeat random numbers, as far as they are recognized."),
  leftOut: LeftOut.optional().describe("Device nodes that the layer lacks: no layer brings one to a node."),
  layers: Layers.optional().describe(
    "The layers of files between the image and this part, in their order. A part that is itself a layer is the last one.",
  ),
});
export type CheckpointPart = z.infer<typeof CheckpointPart>;

/** Whether the parts of a checkpoint include a layer, on which other sandboxes boot. */
export function hasLayer(parts: readonly CheckpointPart[] = []): boolean {
  return parts.some(({ handle, layers }) => layers?.at(-1)?.manifestDigest === handle);
}

/** The parts that are volumes, of which a clone gets new claims. The volumes of a Pod never change, so it needs a new one. */
export function volumeParts(parts: readonly CheckpointPart[] = []): CheckpointPart[] {
  return parts.filter(({ volume }) => volume !== undefined);
}

/** Whether several volumes were captured together. */
const GroupConsistency = z.enum(["group", "sequential"]);
export type GroupConsistency = z.infer<typeof GroupConsistency>;

/** Ramet's additions to the status that OpenKruise Agents defines. Each field is written as soon as its value is known. */
export const RametCheckpointStatus = z.object({
  parts: atomicList(CheckpointPart).optional().describe("The captured parts. The other fields are a summary of them."),
  backend: z.string().optional().describe("The backend that captured memory and files."),
  contents: Contents.optional().describe("What the checkpoint contains, besides volumes."),
  manifestDigest: Digest.optional().describe("SHA-256 of the manifest in the store, checked before a restore."),
  sizeBytes: z.int().min(0).optional().describe("The size of all parts, without the layers below them and volumes."),
  addedBytes: z
    .int()
    .min(0)
    .optional()
    .describe(
      "How much of sizeBytes the store did not have before. 0 if the data is that of another checkpoint. Absent if unknown.",
    ),
  cutAt: Time.optional().describe("The capture time."),
  readyAt: Time.optional().describe("When the data became durable."),
  pausedMilliseconds: z.number().min(0).optional().describe("How long the source was paused."),
  templateDigest: Digest.optional().describe("Digest of the template fields that a clone must share."),
  template: RestoreSpec.optional().describe("The fields behind templateDigest, used to name a difference."),
  image: z.string().optional().describe("The image of the source."),
  imageDigest: z.string().optional().describe("The digest of the image that the source ran."),
  secrets: OptionalTexts.describe(
    "The Secrets of the namespace whose values the captured memory or files can contain.",
  ),
  volumes: atomicList(VolumeClaim)
    .optional()
    .describe("The volumes of the source whose data is not in the checkpoint, and their PersistentVolumeClaims."),
  consistency: z.enum(consistencies).optional().describe("How consistent the parts are with each other."),
  consistencyNote: OptionalText.describe(
    "Why the consistency is weaker than requested, or which command of quiesce has failed.",
  ),
  groupConsistency: GroupConsistency.optional().describe(
    "How several volumes were captured. group: by one VolumeGroupSnapshot, and so at one moment as far as the CSI driver can do that. sequential: by several requests, one after another; only a pause or quiesced programs make them consistent with each other. Absent with less than two volumes.",
  ),
  groupNote: OptionalText.describe("Why volumes of one CSI driver were captured one after another and not as a group."),
  engine: z.string().optional().describe("The engine that the memory needs. Absent without memory."),
  needs: Needs.optional().describe("What a node must have for a restore."),
  phases: z.record(z.string(), z.number()).optional().describe("Milliseconds by phase, in order."),
  problems: Problems,
});
export type RametCheckpointStatus = z.infer<typeof RametCheckpointStatus>;

export const CheckpointStatus = z.object({
  observedGeneration: ObservedGeneration,
  phase: openString(checkpointPhases).optional().describe("Succeeded and Failed are final."),
  message: StatusMessage,
  checkpointId: z.string().optional().describe("The id that clones name in the annotation restore-from."),
  completionTime: Time.optional().describe("When the checkpoint succeeded or failed."),
  conditions: Conditions.optional(),
  podTemplateDelta: SchemalessObject.optional().describe("Written by other controllers only."),
  ramet: RametCheckpointStatus.optional().describe("Fields that Ramet adds to the status of OpenKruise Agents."),
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
    { name: "ID", type: "string", jsonPath: ".status.checkpointId" },
    { name: "Source", type: "string", jsonPath: ".metadata.labels.agents\\.kruise\\.io/sandbox-name" },
    { name: "Size", type: "integer", jsonPath: ".status.ramet.sizeBytes" },
    { name: "Data", type: "string", jsonPath: `.status.conditions[?(@.type=="${dataAvailable}")].reason` },
    { name: "Engine", type: "string", jsonPath: ".status.ramet.engine", priority: 1 },
  ],
});
export const Checkpoint = checkpointKind.object;
export type Checkpoint = z.infer<typeof Checkpoint>;
export const CheckpointManifest = checkpointKind.manifest;
export type CheckpointManifest = z.input<typeof CheckpointManifest>;
