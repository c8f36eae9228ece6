import { defined } from "../../src/base/defined.ts";
import type { Values } from "../handlers/handler.ts";
import { freeKey, recipeSecretName } from "../handlers/named-snapshot/recipe-secret.ts";
import { sourceReference } from "../handlers/named-snapshot/inputs.ts";
import { unknownValue } from "../handlers/validate.ts";

/**
 * The handler's inputs of a named snapshot: `from` as in the object, and the secrets of its recipe apart. A state of the dynamic
 * resource has this shape already.
 */
export function snapshotInputs(values: Values): Values {
  const { name, recipe, secrets } = values;
  const found: Values = {};
  const secretName = name === unknownValue ? unknownValue : recipeSecretName(String(name));
  const steps = Array.isArray(recipe) ? recipe.map((step) => withoutSecret(step as Step, secretName, found)) : recipe;
  const all = Object.keys(found).length === 0 ? secrets : { ...(secrets as Values | undefined), ...found };
  return { ...values, recipe: steps, ...defined({ secrets: all }), ...sourceOf(values["from"]) };
}

/** The properties of the schema. */
export function snapshotProperties({ secrets, ...values }: Values): Values {
  const { name, recipe, from } = values;
  const texts = secrets as Values | undefined;
  const secretName = recipeSecretName(String(name));
  const steps = Array.isArray(recipe) ? recipe.map((step) => withSecret(step as Step, secretName, texts)) : recipe;
  return { ...values, ...defined({ recipe: steps, from: sourceReference(from) }) };
}

interface Step {
  copy?: Values & { path?: unknown; secret?: unknown; secretKeyRef?: { name: string; key: string } };
}

function withoutSecret(step: Step, secretName: string, found: Values): unknown {
  const { copy } = step;
  if (typeof copy?.secret !== "string") return step;
  const { secret, ...rest } = copy;
  const key = freeKey(found, copy.path === unknownValue ? undefined : copy.path);
  found[key] = secret;
  return { ...step, copy: { ...rest, secretKeyRef: { name: secretName, key } } };
}

function withSecret(step: Step, secretName: string, texts: Values | undefined): unknown {
  const { secretKeyRef, ...copy } = step.copy ?? {};
  if (texts === undefined || secretKeyRef?.name !== secretName) return step;
  return { ...step, copy: { ...copy, ...defined({ secret: texts[secretKeyRef.key] }) } };
}

/** `{ snapshot: "a", version: 7 }` as the object has it, and the source that decides the digest, if the program knows it. */
function sourceOf(from: unknown): Values {
  if (typeof from !== "object" || from === null) return {};
  const { template, snapshot, version, digest, checkpoint, sandbox, ...others } = from as Values;
  const isGiven = [template, snapshot, checkpoint, sandbox].some((one) => typeof one === "string");
  if (!isGiven) return {};
  const named = (name: unknown, more: Values = {}) => (name === undefined ? undefined : { name, ...defined(more) });
  const resolved = checkpoint === undefined ? undefined : { checkpoint: { id: checkpoint } };
  return {
    from: {
      ...others,
      ...defined({
        template: named(template),
        snapshot: named(snapshot, { version, digest }),
        sandbox: named(sandbox),
        checkpoint: resolved?.checkpoint,
      }),
    },
    ...defined({ source: snapshot !== undefined && digest !== undefined ? { snapshot: { digest } } : resolved }),
  };
}
