import * as z from "zod";
import { sandboxKind } from "../../../src/api/kinds/sandbox.ts";
import { describeStep, RecipeStep } from "../../../src/api/recipe/recipe.ts";
import { unchangedSteps, type SnapshotDigest } from "../../../src/api/snapshot/snapshot-digest.ts";
import { reviewHeadings, reviewRow, reviewSnapshot } from "../../../src/api/snapshot/snapshot-review.ts";
import { canonicalJson } from "../../../src/base/canonical-json.ts";
import { defined } from "../../../src/base/defined.ts";
import { RametError } from "../../../src/base/errors.ts";
import type { ObjectName } from "../../../src/kube/object.ts";
import { align, inOrder } from "../../../src/base/align.ts";
import { changedProperties, diffByTable, type DiffResult, type HandlerContext, type Values } from "../handler.ts";
import { withCluster } from "../open-cluster.ts";
import { digestOfInputs } from "./check.ts";
import { declaresHold, namedSnapshotDiff, type NamedSnapshotInputs } from "./inputs.ts";
import { lookUp, type SnapshotLookup } from "./lookup.ts";
import { appendBelow } from "./review-file.ts";
import { hasUnknown } from "../validate.ts";

/** Compares state and inputs, and logs in one line what an update would do. */
export async function diffNamedSnapshot(context: HandlerContext, olds: Values, news: Values): Promise<DiffResult> {
  // If only the cluster can compute the digest, or no version is built, the other inputs decide whether anything changes.
  const isOpen = news["digest"] === undefined || (declaresHold(news) && declaresHold(olds));
  const inputs = isOpen ? { ...news, digest: olds["digest"] } : news;
  const result = diffByTable(namedSnapshotDiff, olds, inputs);
  if (result.changes && result.replaces.length === 0) context.log(await describe(context, olds, inputs));
  return result;
}

/** The environment variable with the path of a file to which differences append a table in Markdown. */
const reviewFile = "RAMET_REVIEW_FILE";

async function appendReview(context: HandlerContext, change: SnapshotChange, at: ObjectName): Promise<void> {
  const path = context.environment[reviewFile];
  if (path === undefined || path === "") return;
  const { after, before, built = [], found, followers, unreadable } = change;
  const held = change.held ?? (unreadable === undefined ? undefined : "unknown: the cluster cannot be read");
  const listed = await withCluster(context, (client) =>
    client.of(sandboxKind).list({ namespace: at.namespace, signal: AbortSignal.timeout(lookUpMilliseconds) }),
  ).catch(() => undefined);
  const builds = [before.steps, built];
  const facts = { ...after, name: at.name, found, builds, held, sets: followers, sandboxes: listed?.items };
  appendBelow(path, reviewHeadings, reviewRow(reviewSnapshot(facts)));
}

async function describe(context: HandlerContext, olds: Values, news: Values): Promise<string> {
  const { name, namespace } = news as { name: string; namespace: string };
  const known = (olds["versions"] ?? []) as { version: number; digest: string }[];
  // Without the cluster, a preview uses the state.
  const current = await withCluster(context, (client) =>
    lookUp(client, { name, namespace }, AbortSignal.timeout(lookUpMilliseconds)),
  ).catch((error: unknown) => ({ kept: known, followers: [], unreadable: RametError.from(error).message }));
  const hold = declaresHold(news)
    ? { held: "held by the program: nothing is built" }
    : declaresHold(olds) && { held: undefined };
  const change = defined({ before: versionBefore(olds), after: inputsOf(news), ...current, ...hold });
  const others = changedProperties(namedSnapshotDiff, olds, news).filter((one) => one !== "recipe" && one !== "digest");
  await appendReview(context, change, { namespace, name });
  const { unreadable: _, ...readable } = change as SnapshotChange;
  const isBack = others.length === 0 && describeChange(readable) === "";
  const parts = [...others.map((one) => `${one} changes`), isBack ? backToCurrent : "", describeChange(change)];
  return `${name}: ${parts.filter((one) => one !== "").join("; ")}`;
}

const lookUpMilliseconds = 5_000;
/** For the inputs of a failed build that are taken back. */
const backToCurrent = "the inputs of the current version again: nothing is built";

/** The current version, also if a later build failed. Before the first version, the inputs of the failed build. */
function versionBefore(olds: Values): SnapshotChange["before"] {
  const current = olds["digest"] as string | undefined;
  const { recipe, source, steps } = servedInputs(olds) ?? {
    ...inputsOf(olds),
    steps: digestOfInputs(olds)?.steps ?? [],
  };
  return { recipe, source, steps, current };
}

function inputsOf(values: Values): SnapshotChange["after"] {
  const recipe = (values["recipe"] ?? []) as NamedSnapshotInputs["recipe"];
  return { recipe, source: values["source"] as SnapshotChange["after"]["source"], digest: digestOfInputs(values) };
}

/** A named snapshot before and after a change. */
export interface SnapshotChange extends SnapshotLookup {
  before: Described & { /** The digests of the steps. */ steps: readonly string[]; current: string | undefined };
  after: Described & { digest: SnapshotDigest | undefined };
  /** Why the cluster could not be read. Then only the state is known. */
  unreadable?: string;
}

interface Described {
  recipe: readonly RecipeStep[];
  /** The resolved source, if the program knows it. */
  source?: Record<string, unknown> | undefined;
}

/** Describes a change in one line: the changed steps, the digest, the first step to rebuild, and the sets that roll. */
export function describeChange(change: SnapshotChange): string {
  const { unreadable } = change;
  const source =
    unreadable === undefined ? [] : [`according to the state, because the cluster is unreadable: ${unreadable}`];
  return [...sourceChange(change), ...recipeChanges(change), ...effect(change), ...source].join("; ");
}

/** Why everything is rebuilt although the recipe is the same. */
function sourceChange({ before, after }: SnapshotChange): string[] {
  if (before.source === undefined || after.source === undefined) return [];
  if (hasUnknown([before.source, after.source])) {
    return "snapshot" in before.source && "snapshot" in after.source
      ? ["the snapshot that it is built from may change"]
      : [];
  }
  if (canonicalJson(before.source) === canonicalJson(after.source)) return [];
  const digestIn = (source: Record<string, unknown>): string | undefined =>
    (source["snapshot"] as { digest?: string } | undefined)?.digest;
  const [old, now] = [digestIn(before.source), digestIn(after.source)];
  if (old !== undefined && now !== undefined) {
    return [`the snapshot that it is built from changes from ${short(old)} to ${short(now)}`];
  }
  return ["template" in before.source && "template" in after.source ? "its template changes" : "its source changes"];
}

function recipeChanges({ before, after }: SnapshotChange): string[] {
  const texts = {
    changed: (index: number) => stepChange(before.recipe[index], after.recipe[index]),
    removed: (index: number) => ` removed: ${describeStep(before.recipe[index] ?? {})}`,
    added: (index: number) => ` added: ${describeStep(after.recipe[index] ?? {})}`,
  };
  const differences = inOrder(align(before.recipe, after.recipe));
  const changes = differences.map(({ index, kind }) => `recipe[${index}]${texts[kind](index)}`);
  return changes.length <= mostSteps
    ? changes
    : [...changes.slice(0, mostSteps), `and ${changes.length - mostSteps} more steps`];
}

const mostSteps = 3;

function stepChange(before: RecipeStep = {}, after: RecipeStep = {}): string {
  const [old, now] = [describeStep(before), describeStep(after)];
  if (old === now) return ` ${now}: content or settings change`;
  const same = commonWords(old, now);
  return ` "${shortened(old, same)}" => "${shortened(now, same)}"`;
}

/** The length of the common prefix, cut at a word boundary and without its last word. */
function commonWords(a: string, b: string): number {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length++;
  const lastSpace = a.lastIndexOf(" ", length - 1);
  return Math.max(0, a.lastIndexOf(" ", lastSpace - 1) + 1);
}

function shortened(text: string, from: number): string {
  return from === 0 ? text : `… ${text.slice(from)}`;
}

function effect({ before, after, kept, built, held, followers }: SnapshotChange): string[] {
  const desired = after.digest?.digest;
  if (desired === undefined) return ["digest unknown until its inputs are known"];
  if (desired === before.current) return [];
  const rolls = followers.map(
    ({ name, replicas }) => `${name} rolls ${replicas} ${replicas === 1 ? "sandbox" : "sandboxes"}`,
  );
  const digests = `digest ${short(before.current)} => ${short(desired)}`;
  if (held !== undefined) return [digests, held];
  const found = kept.find(({ digest }) => digest === desired);
  if (found !== undefined) return [digests, `digest is kept as version ${found.version}: no rebuild`, ...rolls];
  return [digests, rebuild([before.steps, built ?? []], after), ...rolls];
}

/** @param builds the digests of the finished steps of earlier builds */
function rebuild(builds: readonly (readonly string[])[], { digest, recipe }: SnapshotChange["after"]): string {
  const unchanged = Math.max(...builds.map((steps) => unchangedSteps(steps, digest?.steps ?? [])));
  if (unchanged === recipe.length) return "captures again after the last step";
  return `rebuilds from step ${unchanged + 1} of ${recipe.length}`;
}

function short(digest: string | undefined): string {
  return digest === undefined ? "none" : `${digest.slice(0, "sha256:".length + 12)}…`;
}

/**
 * The inputs of the current version. They are kept in the state beside the inputs of a failed build, so that the next preview
 * describes its changes against the version that clones still get.
 */
const ServedInputs = z.object({
  digest: z.string(),
  recipe: z.array(RecipeStep),
  source: z.record(z.string(), z.unknown()).optional(),
  /** The digests of the steps, which depend on secrets. */
  steps: z.array(z.string()),
});
type ServedInputs = z.infer<typeof ServedInputs>;

/** The inputs of the current version according to a state. Undefined if the state has no version, or only a failed build's inputs. */
export function servedInputs(state: Values): ServedInputs | undefined {
  const { digest, recipe = [], source, served } = state;
  if (typeof digest !== "string") return undefined;
  const kept = ServedInputs.safeParse(served).data;
  if (kept?.digest === digest) return kept;
  const computed = digestOfInputs(state);
  // Inputs that only the cluster knows cannot be compared with those of the version.
  if (computed !== undefined && computed.digest !== digest) return undefined;
  return ServedInputs.safeParse({ digest, recipe, ...(source != null && { source }), steps: computed?.steps ?? [] })
    .data;
}
