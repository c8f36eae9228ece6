import * as z from "zod";
import {
  namedSnapshotKind,
  type NamedSnapshotManifest,
  NamedSnapshotSpec,
} from "../../../src/api/kinds/named-snapshot.ts";
import { annotations } from "../../../src/api/names/labels.ts";
import type { DiffTable, Values } from "../handler.ts";
import { ownerAnnotation } from "../owner.ts";

/** What the state of a stack keeps of a named snapshot: what the program wishes, and what follows from it. */
export const NamedSnapshotInputs = z.looseObject({
  ...NamedSnapshotSpec.omit({ suspend: true, pinnedVersion: true }).shape,
  name: z.string(),
  namespace: z.string(),
  /** What `from` stands for, with every reference followed; absent: only the cluster knows it. */
  source: z
    .union([
      z.object({ template: z.record(z.string(), z.unknown()) }),
      z.object({ snapshot: z.object({ digest: z.string() }) }),
      z.object({ checkpoint: z.object({ id: z.string() }) }),
    ])
    .optional(),
  /** Files that steps copy and nobody may read here, by the key under which they stand in a Secret. */
  secrets: z.record(z.string(), z.string()).optional(),
  /** Of the hash that stands for them in the digest. */
  digestKey: z.string().optional(),
  /** Whether a secret of the program stands in the recipe itself, where everybody could read it. */
  recipeHoldsSecrets: z.boolean().optional(),
  /** How long a build is waited for: `30 minutes`. */
  timeout: z.string(),
  /** Which resource of which stack this is. */
  owner: z.string(),
  /** Of all inputs; absent where only the cluster can compute it. */
  digest: z.string().optional(),
});
export type NamedSnapshotInputs = z.infer<typeof NamedSnapshotInputs>;

/** What a change of each input means. The digest says whether anything is built. */
export const namedSnapshotDiff: DiffTable = {
  name: "immutable",
  namespace: "immutable",
  from: "mutable",
  recipe: "mutable",
  contents: "mutable",
  keepVersions: "mutable",
  deletionPolicy: "mutable",
  stepCache: "mutable",
  secrets: "mutable",
  digest: "mutable",
  source: "ignored",
  digestKey: "ignored",
  recipeHoldsSecrets: "ignored",
  timeout: "ignored",
  owner: "ignored",
};

/** The inputs that stand in the object's spec as they are. */
export const specProperties = ["from", "recipe", "contents", "keepVersions", "deletionPolicy", "stepCache"] as const;

/** The object that is applied. */
export function manifestOf(inputs: Values): NamedSnapshotManifest {
  const spec = Object.fromEntries(
    specProperties.flatMap((property) => (inputs[property] == null ? [] : [[property, inputs[property]]])),
  );
  const { apiVersion } = namedSnapshotKind;
  const { name, namespace, owner, digest } = inputs;
  return {
    apiVersion,
    kind: "NamedSnapshot",
    metadata: {
      name,
      namespace,
      annotations: { [ownerAnnotation]: owner, ...(digest !== undefined && { [annotations.wantedDigest]: digest }) },
    },
    spec,
  } as unknown as NamedSnapshotManifest;
}

/** Asks for another try of a build that has failed. */
export function retryPatch(now: Date): object {
  return { metadata: { annotations: { [annotations.buildRequest]: now.toISOString() } } };
}
