import { z } from "zod";
import { namedSnapshotOf } from "../declared.ts";
import { defineRule } from "../rule.ts";
import { secretFormats, secretName } from "../secret-formats.ts";

/** Recipes are read by whoever may read the named snapshot, and stand in the state, in previews and in the memory of every clone. */
export const recipeSecrets = defineRule({
  name: "ramet-recipe-secrets",
  description: "Recipes hold no secrets in clear.",
  remedy: 'Give it as a file that is kept in a Secret: copy({ path, secret: config.requireSecret("token") }).',
  settings: {
    patterns: z
      .array(z.string().refine(isPattern, "is no regular expression"))
      .default([])
      .describe("Regular expressions of more that is secret."),
  },
  judge: (resource, { patterns }) => {
    const snapshot = namedSnapshotOf(resource);
    if (snapshot === undefined) return [];
    const formats = [
      ...secretFormats,
      ...patterns.map((pattern, at) => ({
        what: `what pattern ${at + 1} of the settings says`,
        pattern: new RegExp(pattern),
      })),
    ];
    const { recipe } = WithRecipe.parse(snapshot);
    // Pulumi's own mark: a value that came from a secret.
    const marked =
      snapshot["recipeHoldsSecrets"] === true ? ["a step holds a value that the program marks as secret"] : [];
    return [...marked, ...recipe.flatMap((step, at) => judgeStep(step).map((what) => `step ${at + 1} holds ${what}`))];

    function judgeStep(step: Step): string[] {
      const texts = textsOf(step);
      const found = formats.filter(({ pattern }) => texts.some((text) => pattern.test(text))).map(({ what }) => what);
      const named = Object.entries(step.env ?? {})
        .filter(([name, value]) => secretName.test(name) && value !== "")
        .map(([name]) => `a value of the variable ${name}`);
      return [...found, ...named];
    }
  },
});

/** All that a step says, but where a Secret or ConfigMap is. */
function textsOf({ run, start, copy, waitFor, env = {} }: Step): string[] {
  const given = [run, start, copy?.content, copy?.url, waitFor?.command, ...Object.values(env)];
  return given.filter((text) => text !== undefined);
}

function isPattern(text: string): boolean {
  try {
    return new RegExp(text) instanceof RegExp;
  } catch {
    return false;
  }
}

const Step = z.object({
  run: z.string().optional(),
  start: z.string().optional(),
  copy: z.object({ content: z.string().optional(), url: z.string().optional() }).optional(),
  waitFor: z.object({ command: z.string().optional() }).optional(),
  env: z.record(z.string(), z.string()).optional(),
});
type Step = z.output<typeof Step>;
const WithRecipe = z.object({ recipe: z.array(Step).default([]) });
