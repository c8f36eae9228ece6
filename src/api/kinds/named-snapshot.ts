import * as z from "zod";
import { Digest } from "../schema/digest.ts";
import { defineKind, rametGroup } from "../schema/kind.ts";
import { NamedSnapshotStatus } from "./named-snapshot-status.ts";
import { Recipe } from "../recipe/recipe.ts";
import { atomicList, exactlyOne, exclusive, int32, labelName, type Rule, withRules } from "../schema/rules.ts";
import { allVolumes, VolumeNames } from "./sandbox-parts.ts";

const Name = z.string().min(1).max(253).describe("The name of the object, in the same namespace.");
const Version = int32.min(1);

const SnapshotFrom = withRules(
  z.object({
    name: Name,
    version: Version.optional().describe("The version to use."),
    digest: Digest.optional().describe("The digest of the version to use."),
  }),
  [
    exclusive(
      "version",
      "digest",
      "version and digest exclude each other: set one of them, or none to follow the current version",
    ),
  ],
);

/** The state before the first step. */
export const SnapshotSource = withRules(
  z.object({
    template: z.object({ name: Name }).optional().describe("A SandboxTemplate. The first step runs in a new sandbox."),
    snapshot: SnapshotFrom.optional().describe(
      "Another named snapshot. Without version and digest, its current version is followed.",
    ),
    sandbox: z.object({ name: Name }).optional().describe("A running sandbox. It is captured once and keeps running."),
    checkpoint: z
      .object({ id: Name.describe("The id in its status.") })
      .optional()
      .describe("A checkpoint, by its id."),
  }),
  [
    exactlyOne(
      ["template", "snapshot", "sandbox", "checkpoint"],
      "from must name exactly one of template, snapshot, sandbox and checkpoint",
    ),
  ],
);
export type SnapshotSource = z.infer<typeof SnapshotSource>;

export const versionContents = ["memory", "filesystem", "volumes"] as const;
export type VersionContent = (typeof versionContents)[number];

const SnapshotContents = withRules(atomicList(z.enum(versionContents)).max(versionContents.length), [
  {
    cel: "self.exists_one(content, content == 'filesystem') && self.all(content, self.exists_one(other, other == content))",
    message: "contents must have filesystem, and may have memory and volumes, each once",
    holds: (contents) => contents.includes("filesystem") && new Set(contents).size === contents.length,
  },
]).describe(
  "The contents of a version. Without memory, a clone boots from the file system. With volumes, it has the data of the builder's PersistentVolumeClaims.",
);

/** Selects the contents of versions. Without `volumes`, it is all. */
const namedVolumes: Rule<{ contents: readonly string[]; volumes?: unknown }> = {
  cel: "!has(self.volumes) || self.contents.exists(content, content == 'volumes')",
  message: "volumes names what contents does not select: add volumes to contents",
  fieldPath: ".volumes",
  holds: ({ contents, volumes }) => volumes === undefined || contents.includes("volumes"),
};

export const stepCaches = ["EveryStep", "LastStep", "None"] as const;

export const engineUpgrades = ["Auto", "Manual"] as const;

const fields = z.object({
  from: SnapshotSource.describe("The state before the first step: exactly one of the fields."),
  recipe: Recipe.default([]).describe("The steps that build a version, in order."),
  contents: SnapshotContents.default(["memory", "filesystem"]),
  volumes: VolumeNames.optional().describe(
    "The volumes of a version, by their names in the Pod of the builder; * is all that are PersistentVolumeClaims. Default with volumes in contents: all.",
  ),
  keepVersions: int32
    .min(1)
    .max(100)
    .default(5)
    .describe(
      "The number of versions to keep. Older versions are deleted unless a sandbox, set or named snapshot refers to them.",
    ),
  deletionPolicy: z
    .enum(["Retain", "Delete"])
    .default("Retain")
    .describe("Whether to keep the Checkpoints of the versions when the named snapshot is deleted."),
  suspend: z.boolean().optional().describe("If true, nothing is built and the current version does not change."),
  stepCache: z
    .enum(stepCaches)
    .default("EveryStep")
    .describe("The steps after which the state is captured, so that a later build can start from it."),
  layers: z
    .boolean()
    .optional()
    .describe(
      "Whether the steps before the first start or waitFor make a layer, which all clones on a node share: a clone takes the same time and memory, however many files it has. What these steps leave running ends, and the template's command starts again on their files. Needs a template without volume mounts and with a writable root as the source, and no volumes in contents. Default: where that is so.",
    ),
  engineUpgrade: z
    .enum(engineUpgrades)
    .default("Auto")
    .describe(
      "What happens when an upgrade brings another engine. Auto: the current version is built again in the background, and replaced when that is ready. Manual: it keeps its engine until a build is requested.",
    ),
  pinnedVersion: Version.optional().describe(
    "Keeps this kept version current and builds nothing until the field is removed.",
  ),
});
export const NamedSnapshotSpec = withRules(fields, [namedVolumes]);
export type NamedSnapshotSpec = z.infer<typeof NamedSnapshotSpec>;

/** The names of builders, Checkpoints and cached steps start with it, and those of builders are host names. */
const snapshotName = labelName(
  40,
  "metadata.name must be a DNS label of at most 40 characters: the names of its build sandboxes start with it",
);

export const namedSnapshotKind = defineKind({
  group: rametGroup,
  kind: "NamedSnapshot",
  plural: "namedsnapshots",
  singular: "namedsnapshot",
  shortNames: ["nsnap"],
  description: "A name with immutable versions, each built from a recipe and backed by a Checkpoint.",
  spec: NamedSnapshotSpec,
  status: NamedSnapshotStatus,
  rules: [snapshotName],
  columns: [
    { name: "Version", type: "integer", jsonPath: ".status.version" },
    { name: "Ready", type: "string", jsonPath: '.status.conditions[?(@.type=="Ready")].status' },
    { name: "Building", type: "string", jsonPath: '.status.conditions[?(@.type=="Building")].status' },
    { name: "Step", type: "string", jsonPath: ".status.progress" },
    { name: "Digest", type: "string", jsonPath: ".status.digest", priority: 1 },
    { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" },
    { name: "Message", type: "string", jsonPath: ".status.message" },
  ],
});
export const NamedSnapshot = namedSnapshotKind.object;
export type NamedSnapshot = z.infer<typeof NamedSnapshot>;
export const NamedSnapshotManifest = namedSnapshotKind.manifest;
export type NamedSnapshotManifest = z.input<typeof NamedSnapshotManifest>;

/** The volumes of a source that the versions of a named snapshot do not contain. */
export function volumesLeftOut(
  { contents, volumes: named = [allVolumes] }: Pick<NamedSnapshotSpec, "contents" | "volumes">,
  ofSource: readonly string[],
): string[] {
  const has = (volume: string) => named.includes(allVolumes) || named.includes(volume);
  return ofSource.filter((volume) => !contents.includes("volumes") || !has(volume));
}
