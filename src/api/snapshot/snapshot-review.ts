import type { NamedSnapshot } from "../kinds/named-snapshot.ts";
import type { SandboxSet } from "../kinds/sandbox-set.ts";
import type { Sandbox } from "../kinds/sandbox.ts";
import { originAnnotations, restoreFromAnnotations } from "../names/labels.ts";
import { describeStep, type RecipeStep } from "../recipe/recipe.ts";
import { hasEnded } from "../state/sandbox.ts";
import { readableBytes } from "../../base/quantity.ts";
import { defined } from "../../base/defined.ts";
import { visible } from "../../base/visible.ts";
import { type SnapshotDigest, unchangedSteps } from "./snapshot-digest.ts";

/** A change of a named snapshot, for its review. */
export interface SnapshotReview {
  name: string;
  /** What becomes of the current version, in a few words. */
  effect: string;
  /** The steps of the new recipe, if they are known: how many come from the cache, how many run, and the first that runs. */
  steps?: { reused: number; rebuilt: number; first?: string };
  /** How long the steps that run took in the last build. `isPartial`: no time is known of some. */
  estimate?: { milliseconds: number; isPartial: boolean };
  /** The size of the current version. */
  sizeBytes?: number;
  /** The sets that follow the name, and so replace their sandboxes. One that names a version changes only with its own object. */
  rolls: readonly { name: string; replicas: number }[];
  /** The sandboxes that keep the current version. Undefined: they could not be listed. */
  clones?: readonly string[];
}

export interface ReviewFacts {
  name: string;
  recipe: readonly RecipeStep[];
  /** Undefined until the inputs are known. */
  digest: SnapshotDigest | undefined;
  found: NamedSnapshot | undefined;
  /** The digests of the steps of further builds whose steps are cached. */
  builds?: readonly (readonly string[])[];
  /** Why the current version does not change. */
  held?: string | undefined;
  sets: SnapshotReview["rolls"];
  /** The sandboxes of the namespace. Undefined: they could not be listed. */
  sandboxes?: readonly Sandbox[] | undefined;
}

export function reviewSnapshot(facts: ReviewFacts): SnapshotReview {
  const { name, digest, held, sets, sandboxes } = facts;
  const { current, kept, before, moves } = versionsOf(facts);
  const isKept = (one: Sandbox): boolean => current !== undefined && isCloneOf(one, name, current);
  const clones = moves ? sandboxes?.filter(isKept).map(({ metadata }) => metadata.name) : [];
  return {
    name,
    effect: held ?? effectOf(digest?.digest, { before, kept: kept?.version, current: current?.version }),
    ...buildOf(facts, kept !== undefined || held !== undefined ? undefined : digest),
    rolls: moves ? sets : [],
    ...defined({ sizeBytes: current?.sizeBytes, clones }),
  };
}

function versionsOf({ found, digest, held }: ReviewFacts) {
  const { versions = [], version: number, digest: before } = found?.status ?? {};
  const current = versions.find(({ version }) => version === number);
  const kept = versions.find((version) => version.digest === digest?.digest);
  const moves = held === undefined && current !== undefined && digest?.digest !== before;
  return { current, kept, before, moves };
}

function effectOf(
  digest: string | undefined,
  { before, kept, current }: Record<"kept" | "current", number | undefined> & { before: string | undefined },
): string {
  if (digest === undefined) return "unknown until its inputs are known";
  if (digest === before) return "no change";
  if (kept !== undefined) return `version ${kept} becomes current again`;
  return current === undefined ? "version 1 is built" : `a version is built after version ${current}`;
}

function buildOf({ recipe, found, builds = [] }: ReviewFacts, digest: SnapshotDigest | undefined) {
  if (digest === undefined) return {};
  const { steps } = digest;
  const before = found?.status?.steps ?? [];
  const reused = Math.max(...[before.map(({ digest }) => digest), ...builds].map((one) => unchangedSteps(one, steps)));
  const texts = recipe.map(describeStep);
  const times = texts.slice(reused).map((text, index) => {
    // A step that has changed takes about as long as the one in its place.
    const same = before.find(({ step, milliseconds }) => step === text && milliseconds !== undefined);
    return (same ?? before[reused + index])?.milliseconds;
  });
  const known = times.filter((time) => time !== undefined);
  return {
    steps: { reused, rebuilt: recipe.length - reused, ...defined({ first: texts[reused] }) },
    ...(known.length > 0 && {
      estimate: { milliseconds: known.reduce((sum, time) => sum + time, 0), isPartial: known.length < times.length },
    }),
  };
}

function isCloneOf(sandbox: Sandbox, name: string, current: { version: number; digest: string; checkpointId: string }) {
  const { annotations: given = {}, ownerReferences = [] } = sandbox.metadata;
  const { checkpointId, version, digest } = current;
  const texts = [checkpointId, `${name}@${version}`, `${name}@${digest}`];
  const isOfVersion = originAnnotations.some((key) => texts.includes(given[key] ?? ""));
  return isOfVersion && !hasEnded(sandbox) && !ownerReferences.some(({ kind }) => kind === "SandboxSet");
}

/** The sets that follow a named snapshot, that is, refer to it without a version. */
export function followsSnapshot({ spec }: SandboxSet, name: string): boolean {
  const metadata = spec.template?.["metadata"] as { annotations?: Record<string, unknown> } | undefined;
  return restoreFromAnnotations.some((key) => metadata?.annotations?.[key] === name);
}

/** Fields that were set by hand and that no program changes. */
export function holdOf({ metadata: { name }, spec }: NamedSnapshot): string | undefined {
  if (spec.pinnedVersion !== undefined) {
    return `pinned to version ${spec.pinnedVersion}, which stays current until you run: ramet snapshot unpin ${name}`;
  }
  return spec.suspend === true ? "suspended: nothing is built until you remove spec.suspend" : undefined;
}

const headings = [
  "Snapshot",
  "Effect",
  "Steps reused",
  "Steps rebuilt",
  "Minutes",
  "Current size",
  "Pools that follow the name",
  "Clones that keep the old version",
];

/** The headings of a table in Markdown for {@link reviewRow}. */
export const reviewHeadings = `| ${headings.join(" | ")} |\n|${headings.map(() => " --- |").join("")}\n`;

/** A row in Markdown. Texts of users are code without any character that could be markup, a mention or a link. */
export function reviewRow({ name, effect, steps, estimate, sizeBytes, rolls, clones }: SnapshotReview): string {
  const first = steps?.first === undefined ? "" : `, from ${code(steps.first)}`;
  const cells = [
    code(name),
    code(effect),
    steps === undefined ? "" : `${steps.reused} of ${steps.reused + steps.rebuilt}`,
    steps === undefined ? "" : `${steps.rebuilt}${first}`,
    estimate === undefined ? "" : `${estimate.isPartial ? "at least " : "about "}${minutes(estimate.milliseconds)}`,
    sizeBytes === undefined ? "" : readableBytes(sizeBytes),
    listed(rolls.map(({ name: set, replicas }) => `${set} (${replicas})`)),
    clones === undefined ? "unknown" : listed(clones),
  ];
  return `| ${cells.join(" | ")} |\n`;
}

function minutes(milliseconds: number): string {
  return (Math.ceil(milliseconds / 6000) / 10).toFixed(1);
}

function listed(names: readonly string[]): string {
  const more = names.length > mostNames ? `, and ${names.length - mostNames} more` : "";
  return names.slice(0, mostNames).map(code).join(", ") + more;
}

const mostNames = 5;
const mostCharacters = 160;

function code(text: string): string {
  const line = visible(text.replace(/\s+/g, " ").trim());
  const short = line.length <= mostCharacters ? line : `${line.slice(0, mostCharacters - 1)}…`;
  return `<code>${short.replace(/[^A-Za-z0-9 -]/gu, (character) => `&#${character.codePointAt(0) ?? 0};`)}</code>`;
}
