import * as z from "zod";
import type { Checkpoint } from "../kinds/checkpoint.ts";
import type { SnapshotVersion } from "../kinds/named-snapshot-status.ts";
import type { NamedSnapshot } from "../kinds/named-snapshot.ts";
import { annotations, jsonAnnotation } from "../names/labels.ts";
import { describeStep, type RecipeStep } from "../recipe/recipe.ts";
import { shortDigestOf } from "../schema/digest.ts";
import type { CopiedContent } from "./snapshot-digest.ts";
import { printSnapshotReference } from "./snapshot-reference.ts";
import { align, inOrder } from "../../base/align.ts";
import { canonicalJson } from "../../base/canonical-json.ts";
import { defined } from "../../base/defined.ts";

/** A version, and its Checkpoint if that was found. */
export interface ComparedVersion {
  snapshot: NamedSnapshot;
  version: SnapshotVersion;
  checkpoint: Checkpoint | undefined;
}

/** A field in which two versions differ. Null: the version does not have it. */
export interface VersionChange {
  field: string;
  from: unknown;
  to: unknown;
}

/** A step in which two versions differ, counted from 1, in one line. Without `from` it was added, without `to` removed. */
export interface StepChange {
  from?: { step: number; text: string };
  to?: { step: number; text: string };
}

export interface VersionDiff {
  from: string;
  to: string;
  changes: VersionChange[];
  /** Null: an earlier release has built one of them, and its steps were not recorded. */
  recipe: StepChange[] | null;
}

/** Compares two versions by what Ramet recorded about them: steps, inputs, image, template, contents, layers, Secrets and sizes. */
export function diffVersions(before: ComparedVersion, after: ComparedVersion): VersionDiff {
  const [old, now] = [fieldsOf(before), fieldsOf(after)];
  const changes = [...new Set([...old.keys(), ...now.keys()])].flatMap((field): VersionChange[] => {
    const [from, to] = [old.get(field) ?? null, now.get(field) ?? null];
    return canonicalJson(from) === canonicalJson(to) ? [] : [{ field, from, to }];
  });
  return { from: referenceOf(before), to: referenceOf(after), changes, recipe: stepChanges(before, after) };
}

function referenceOf({ snapshot, version }: ComparedVersion): string {
  return printSnapshotReference({ name: snapshot.metadata.name, version: version.version });
}

function fieldsOf({ version, checkpoint }: ComparedVersion): Map<string, unknown> {
  const { template = {}, imageDigest, contents, parts = [], addedBytes } = checkpoint?.status?.ramet ?? {};
  const { digest, parent, engine, secrets, sizeBytes } = version;
  return new Map<string, unknown>([
    ["digest", digest],
    ["parent", parent],
    ...Object.entries(template).map(([name, value]): [string, unknown] => [`template.${name}`, value]),
    ["image_digest", imageDigest],
    ["contents", contents],
    ["volumes", parts.flatMap(({ volume }) => (volume === undefined ? [] : [volume.volume]))],
    ["layers", parts.flatMap(({ layers = [] }) => layers.map(({ manifestDigest }) => manifestDigest))],
    ["engine", engine],
    ["secrets", secrets],
    ["size_bytes", sizeBytes],
    ["added_bytes", addedBytes],
  ]);
}

/** The steps of a version in one line each, and what identifies each with the content that it copies. */
const RecordedRecipe = z.array(z.object({ text: z.string(), id: z.string() })).max(100);

/** The annotation of a version's Checkpoint with its steps. */
export function recordedRecipe(
  recipe: readonly RecipeStep[],
  copied: ReadonlyMap<number, CopiedContent>,
): Record<string, string> {
  const steps = recipe.map((step, index) => ({
    text: describeStep(step),
    id: shortDigestOf({ step, copied: copied.get(index) ?? null }),
  }));
  return { [annotations.recipe]: JSON.stringify(steps) };
}

function stepChanges(...versions: [ComparedVersion, ComparedVersion]): StepChange[] | null {
  const [old, now] = versions.map(
    ({ checkpoint }) => checkpoint && jsonAnnotation(checkpoint, annotations.recipe, RecordedRecipe),
  );
  if (old === undefined || now === undefined) return null;
  const at = (steps: typeof old, index: number) => ({ step: index + 1, text: steps[index]?.text ?? "" });
  return inOrder(align(old, now)).map(({ index, kind }) =>
    defined({
      from: kind === "added" ? undefined : at(old, index),
      to: kind === "removed" ? undefined : at(now, index),
    }),
  );
}
