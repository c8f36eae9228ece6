import * as z from "zod";
import { RecipeStep } from "../../../src/api/recipe/recipe.ts";
import type { Values } from "../handler.ts";
import { digestOfInputs } from "./check.ts";

/**
 * The inputs of the current version. They are kept in the state beside the inputs of a failed build, so that the next preview
 * describes its changes against the version that clones still get.
 */
export const ServedInputs = z.object({
  digest: z.string(),
  recipe: z.array(RecipeStep),
  source: z.record(z.string(), z.unknown()).optional(),
  /** The digests of the steps, which depend on secrets. */
  steps: z.array(z.string()),
});
export type ServedInputs = z.infer<typeof ServedInputs>;

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
