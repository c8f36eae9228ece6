import { canonicalJson } from "../../../src/base/canonical-json.ts";
import { describeStep, type RecipeStep } from "../../../src/api/recipe/recipe.ts";
import { unchangedSteps, type SnapshotDigest } from "../../../src/api/snapshot/snapshot-digest.ts";

/** A named snapshot before and after a change, as far as it is known. */
export interface SnapshotChange {
  before: { recipe: readonly RecipeStep[]; digest: SnapshotDigest | undefined; served: string | undefined };
  after: { recipe: readonly RecipeStep[]; digest: SnapshotDigest | undefined };
  /** The versions that are kept. */
  kept: readonly { version: number; digest: string }[];
  /** Why the version does not move, and what has to be done for that; undefined: it moves. */
  held?: string;
  /** Why the cluster could not be asked, so that only the state is known. */
  unseen?: string;
  /** Sets that follow the name, and how many sandboxes each holds. */
  followers: readonly { name: string; replicas: number }[];
}

/** What a change does, in one line: which steps, which digest, what is built from where on, and what rolls. */
export function describeChange(change: SnapshotChange): string {
  const { unseen } = change;
  const source = unseen === undefined ? [] : [`as the state has it: ${unseen}`];
  return [...recipeChanges(change), ...effect(change), ...source].join("; ");
}

function recipeChanges({ before, after }: SnapshotChange): string[] {
  const count = Math.max(before.recipe.length, after.recipe.length);
  const changes = Array.from({ length: count }, (_, index) =>
    stepChange(index, before.recipe[index], after.recipe[index]),
  ).filter((text) => text !== undefined);
  return changes.length <= mostSteps
    ? changes
    : [...changes.slice(0, mostSteps), `and ${changes.length - mostSteps} more steps`];
}

const mostSteps = 3;

function stepChange(index: number, before: RecipeStep | undefined, after: RecipeStep | undefined): string | undefined {
  const where = `recipe[${index}]`;
  if (before === undefined) return after && `${where} is added: ${describeStep(after)}`;
  if (after === undefined) return `${where} is removed: ${describeStep(before)}`;
  if (canonicalJson(before) === canonicalJson(after)) return undefined;
  const [old, now] = [describeStep(before), describeStep(after)];
  if (old === now) return `${where} ${now}: another content or setting`;
  const same = commonWords(old, now);
  return `${where} "${shortened(old, same)}" => "${shortened(now, same)}"`;
}

/** How many characters at the beginning are the same, up to the end of a word, less the last word of them. */
function commonWords(a: string, b: string): number {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length++;
  const lastSpace = a.lastIndexOf(" ", length - 1);
  return Math.max(0, a.lastIndexOf(" ", lastSpace - 1) + 1);
}

function shortened(text: string, from: number): string {
  return from === 0 ? text : `… ${text.slice(from)}`;
}

function effect({ before, after, kept, held, followers }: SnapshotChange): string[] {
  const wanted = after.digest?.digest;
  if (wanted === undefined) return ["its digest is known when its inputs are"];
  if (wanted === before.served) return [];
  const rolls = followers.map(({ name, replicas }) => `${name} rolls ${replicas} sandboxes`);
  const digests = `digest ${short(before.served)} => ${short(wanted)}`;
  if (held !== undefined) return [digests, held];
  const found = kept.find(({ digest }) => digest === wanted);
  if (found !== undefined) return [digests, `digest is kept as version ${found.version}: no rebuild`, ...rolls];
  return [digests, rebuild(before.digest, after), ...rolls];
}

function rebuild(before: SnapshotDigest | undefined, { digest, recipe }: SnapshotChange["after"]): string {
  const unchanged = unchangedSteps(before?.steps ?? [], digest?.steps ?? []);
  if (unchanged === recipe.length) return "captures anew after its last step";
  return `rebuilds from step ${unchanged + 1} of ${recipe.length}`;
}

function short(digest: string | undefined): string {
  return digest === undefined ? "none" : `${digest.slice(0, "sha256:".length + 12)}…`;
}
