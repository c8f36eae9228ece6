import type { Rule } from "./rule.ts";
import { boundedLifetimes, boundedReplicas } from "./rules/bounded-lifetimes.ts";
import { pinnedImages } from "./rules/pinned-images.ts";
import { privateStore } from "./rules/private-store.ts";
import { recipeSecrets } from "./rules/recipe-secrets.ts";
import { retention } from "./rules/retention.ts";

/** What Ramet asks of a program. */
export const rules = [
  retention,
  privateStore,
  pinnedImages,
  recipeSecrets,
  boundedReplicas,
  boundedLifetimes,
] as const satisfies readonly Rule[];

export type RuleName = (typeof rules)[number]["name"];
