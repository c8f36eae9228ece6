import { isSecret, output, secret, type Input, type Output } from "@pulumi/pulumi";
import type { RecipeStepArgs } from "./recipe.ts";

/** A recipe of which the secrets have been taken out, into a Secret that its steps then name. */
export interface PartedRecipe {
  recipe: Output<Record<string, unknown>[]>;
  /** By key of the Secret; absent when no step copies one. */
  secrets: Record<string, Output<string>> | undefined;
  /** Whether there is a secret in what is left. */
  holdsSecrets: Output<boolean>;
}

/** @param secretName the Secret that holds what is taken out */
export function partRecipe(steps: readonly RecipeStepArgs[], secretName: Input<string>): PartedRecipe {
  const secrets: Record<string, Output<string>> = {};
  const plain = steps.map((step) => {
    if (step.copy?.secret === undefined) return step;
    const { secret: text, ...copy } = step.copy;
    const key = freeKey(secrets, copy.path);
    secrets[key] = secret(text);
    return { ...step, copy: { ...copy, secretKeyRef: { name: secretName, key } } };
  });
  const recipe = output(plain) as Output<Record<string, unknown>[]>;
  return {
    recipe,
    secrets: Object.keys(secrets).length === 0 ? undefined : secrets,
    holdsSecrets: output(isSecret(recipe)),
  };
}

/** The key says where the file goes, so that another step before it changes nothing. */
function freeKey(taken: object, path: Input<string>): string {
  const text = typeof path === "string" ? path.replace(/^\/+/, "").replace(/[^-._a-zA-Z0-9]/g, "_") : "file";
  const base = text === "" ? "file" : text;
  for (let count = 1; ; count++) {
    const key = count === 1 ? base : `${base}-${count}`;
    if (!Object.hasOwn(taken, key)) return key;
  }
}
