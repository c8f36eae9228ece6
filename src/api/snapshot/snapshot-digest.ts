import { defined } from "../../base/defined.ts";
import { digestOf } from "../schema/digest.ts";
import { allVolumes } from "../kinds/sandbox-parts.ts";
import type { RecipeStep } from "../recipe/recipe.ts";
import type { VersionContent } from "../kinds/named-snapshot.ts";
import { parsePodTemplate, withoutNulls } from "../schema/pod-template.ts";
import { restoreSpec } from "../pod/restore-spec.ts";
import type { SandboxTemplateSpec } from "../kinds/sandbox-template.ts";

export interface SnapshotDigest {
  /** Digest of all inputs; identifies a version. */
  digest: string;
  /** Digest of the state before the first step. */
  base: string;
  /** One digest per step, of the step, all steps before it and the base. Equal digests mean equal states. */
  steps: string[];
  /** Whether the files of the leading steps become layers. */
  layers: boolean;
}

/**
 * The digest of the inputs of a named snapshot. A pure function: independent of the machine and the order of keys, and different
 * for any other input.
 */
export function snapshotDigest(inputs: SnapshotInputs): SnapshotDigest {
  const { from, contents, volumes, layers } = inputs;
  // A step that was captured without the volumes cannot be continued with them.
  const isAll = volumes?.includes(allVolumes) ?? true;
  const withVolumes = contents.includes("volumes") && { volumes: isAll || [...new Set(volumes)].sort() };
  // Generators write null for absent fields.
  const source = { v: 1, from: withoutNulls(from), ...withVolumes };
  const isLayered = layers ?? hasLayersByDefault(inputs);
  // The memory after a step cannot become a layer.
  const base = digestOf({ ...source, ...(isLayered && { layers: true }) });
  const steps = digestsAfter(base, inputs);
  // A version with the default, which was to make no layers, keeps its digest.
  const given = layers === undefined && isLayered ? digestOf(source) : base;
  const last = digestsAfter(given, inputs).at(-1) ?? given;
  const chosen = layers === false && { layers };
  return {
    digest: digestOf({ v: 1, after: last, contents: [...contents].sort(), ...chosen }),
    base,
    steps,
    layers: isLayered,
  };
}

function digestsAfter(base: string, { recipe, copied }: SnapshotInputs): string[] {
  const steps: string[] = [];
  for (const [index, step] of recipe.entries()) {
    const plain = withoutNulls({ ...step, ...defined({ copied: copied.get(index) }) });
    steps.push(digestOf({ v: 1, after: steps.at(-1) ?? base, step: plain }));
  }
  return steps;
}

function hasLayersByDefault(inputs: SnapshotInputs): boolean {
  try {
    return inputs.hasLayers !== false && canHaveLayers(inputs);
  } catch {
    // The sandbox of the build says what is not valid.
    return false;
  }
}

/**
 * Programs of another source run already. What a step writes to a volume, or to the /tmp of a read-only root, is in no layer.
 * @throws RametError `InvalidArgument` for a template that is not valid for a sandbox
 */
export function canHaveLayers({ from, contents }: Pick<SnapshotInputs, "from" | "contents">): boolean {
  if (!("template" in from) || contents.includes("volumes")) return false;
  const { mounts, readOnlyRoot } = restoreSpec(parsePodTemplate(from.template.template));
  return mounts.length === 0 && !readOnlyRoot;
}

/**
 * The number of leading steps with an unchanged state. A build runs the steps after them.
 * @param before digests of the steps of an earlier build
 */
export function unchangedSteps(before: readonly string[], after: readonly string[]): number {
  const first = after.findIndex((digest, index) => digest !== before[index]);
  return first < 0 ? after.length : first;
}

/**
 * The inputs of a version with all references resolved, from which `snapshotDigest` is computed. The controller and a Pulumi
 * preview without a cluster compute the same digest from the same inputs.
 */
export interface SnapshotInputs {
  from: ResolvedSource;
  recipe: readonly RecipeStep[];
  /** The content that steps with `configMapKeyRef` or `secretKeyRef` copy, by step index. */
  copied: ReadonlyMap<number, CopiedContent>;
  contents: readonly VersionContent[];
  /** The names of the volumes to capture. Undefined: all, if `contents` has them. */
  volumes?: readonly string[] | undefined;
  /** Whether the files of the leading steps are layers. @default where they can be */
  layers?: boolean | undefined;
  /** Whether the controllers make layers at all. @default true */
  hasLayers?: boolean | undefined;
}

export type ResolvedSource =
  | { template: SandboxTemplateSpec }
  /** The digest of the parent version. */
  | { snapshot: { digest: string } }
  | { checkpoint: { id: string } }
  /** A later sandbox with the same name has another UID and is another source. */
  | { sandbox: { name: string; uid: string } };

/** Represents content of another object in a digest. */
export type CopiedContent =
  /** The SHA-256 of the bytes of a ConfigMap's key: 64 hex digits. */
  | { sha256: string }
  /** The identity of a Secret's key, whose value could be guessed from a hash of the bytes: see {@link secretIdentity}. */
  | { identity: string };

/**
 * Represents the content of a Secret in a digest; docs/decisions/0006 has the reasons. The author of the Secret changes the
 * annotation with the content, for example to a keyed hash. Without it, every change of the object counts as a change of content.
 */
export function secretIdentity({
  annotations = {},
  uid,
  resourceVersion,
}: {
  annotations?: Record<string, string> | undefined;
  uid: string;
  resourceVersion: string;
}): string {
  const declared = annotations[contentDigestAnnotation];
  return declared === undefined ? `object:${uid}/${resourceVersion}` : `declared:${declared}`;
}

/** On a Secret: a text that changes if and only if its content changes. */
export const contentDigestAnnotation = "ramet.dev/content-digest";
