import * as z from "zod";
import {
  namedSnapshotKind,
  type NamedSnapshotManifest,
  NamedSnapshotSpec,
} from "../../../src/api/kinds/named-snapshot.ts";
import { annotations } from "../../../src/api/names/labels.ts";
import { volumesOnRestore } from "../../../src/api/names/volumes-on-restore.ts";
import { defined } from "../../../src/base/defined.ts";
import type { DiffTable, Values } from "../handler.ts";
import { ownerAnnotation } from "../../../src/api/names/labels.ts";

const Texts = z.record(z.string(), z.string());

/** The state of a named snapshot in a stack: the program's inputs and derived values. */
export const NamedSnapshotInputs = z.looseObject({
  ...NamedSnapshotSpec.shape,
  /** Without the default, which states of earlier versions do not have. */
  engineUpgrade: NamedSnapshotSpec.shape.engineUpgrade.unwrap().optional(),
  name: z.string(),
  namespace: z.string(),
  labels: Texts.optional(),
  annotations: Texts.optional(),
  /** The resolved `from`. Absent if only the cluster knows it. */
  source: z
    .union([
      z.object({ template: z.record(z.string(), z.unknown()) }),
      z.object({ snapshot: z.object({ digest: z.string() }) }),
      z.object({ checkpoint: z.object({ id: z.string() }) }),
    ])
    .optional(),
  /** Secret files that steps copy, by their key in the Secret. */
  secrets: Texts.optional(),
  /** The key of the HMAC that represents the secrets in the digest. */
  digestKey: z.string().optional(),
  /** Whether the recipe itself contains a secret of the program, where everyone could read it. */
  recipeHoldsSecrets: z.boolean().optional(),
  /** The choice of the volumes of builds whose source has PersistentVolumeClaims. */
  volumesOnRestore: z.enum(volumesOnRestore).optional(),
  /** How long to wait for a build, such as `30 minutes`. */
  timeout: z.string(),
  /** Identifies the declaring resource and its stack. */
  owner: z.string(),
  /** The digest of all inputs. Absent if only the cluster can compute it. */
  digest: z.string().optional(),
});
export type NamedSnapshotInputs = z.infer<typeof NamedSnapshotInputs>;

/** The inputs that are copied to the object's spec. */
export const specProperties = [
  "from",
  "recipe",
  "contents",
  "volumes",
  "keepVersions",
  "deletionPolicy",
  "stepCache",
  "layers",
  "engineUpgrade",
  "suspend",
  "pinnedVersion",
] as const;

/** Fields that keep the current version. Set by hand, they stay until they are removed by hand. */
export const holdingProperties = ["suspend", "pinnedVersion"] as const;

/** Whether the program itself keeps the current version, whatever else its inputs say. */
export function declaresHold({ suspend, pinnedVersion }: Values): boolean {
  return suspend === true || pinnedVersion != null;
}

/** The part of an object's metadata that a program declares. */
export const metadataProperties = ["labels", "annotations"] as const;

/** The effect of changing each input. The digest decides whether anything is built. */
export const namedSnapshotDiff: DiffTable = {
  immutable: ["name", "namespace"],
  mutable: [...specProperties, ...metadataProperties, "secrets", "volumesOnRestore", "digest"],
};

export function manifestOf(inputs: Values): NamedSnapshotManifest {
  const spec = Object.fromEntries(
    specProperties.flatMap((property) => (inputs[property] == null ? [] : [[property, inputs[property]]])),
  );
  const { apiVersion } = namedSnapshotKind;
  const { name, namespace, owner, digest, volumesOnRestore: volumes, labels } = inputs;
  return {
    apiVersion,
    kind: "NamedSnapshot",
    metadata: {
      name,
      namespace,
      ...(labels != null && { labels }),
      annotations: {
        ...(inputs["annotations"] as object | null | undefined),
        [ownerAnnotation]: owner,
        ...defined({ [annotations.wantedDigest]: digest }),
        ...(volumes != null && { [annotations.volumesOnRestore]: volumes }),
      },
    },
    spec,
  } as unknown as NamedSnapshotManifest;
}

/** A patch that requests another attempt of a failed build. */
export function retryPatch(now: Date): object {
  return { metadata: { annotations: { [annotations.buildRequest]: now.toISOString() } } };
}

/** The source of the object as the schema of the provider process has it: `{ snapshot: "a", version: 7 }`. */
export function sourceReference(from: unknown): unknown {
  if (typeof from !== "object" || from === null) return from;
  const { template, snapshot, checkpoint, sandbox, ...others } = from as Record<string, Values | undefined>;
  const { name, version, digest } = snapshot ?? {};
  return {
    ...others,
    ...defined({
      template: template?.["name"],
      snapshot: name,
      version,
      digest,
      checkpoint: checkpoint?.["id"],
      sandbox: sandbox?.["name"],
    }),
  };
}
