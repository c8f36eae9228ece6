import type * as z from "zod";
import { RametError } from "../../src/base/errors.ts";
import type { CheckResult, ResourceHandler, Values } from "./handler.ts";

/**
 * What is wrong with the values, by the schema. What is said of a value that is not known yet, or of one that holds such a
 * value, is left out: it is judged when it is known.
 */
export function validate(schema: z.ZodType, values: Values): CheckResult["failures"] {
  const result = schema.safeParse(values);
  if (result.success) return [];
  return result.error.issues.flatMap(({ path, message }) =>
    hasUnknown(closest(values, path)) ? [] : [{ property: printed(path), reason: message }],
  );
}

/** The value at the path, or as far along it as there is one. */
function closest(values: unknown, path: readonly PropertyKey[]): unknown {
  let found = values;
  for (const key of path) {
    if (typeof found !== "object" || found === null || !Object.hasOwn(found, key)) return found;
    found = (found as Record<PropertyKey, unknown>)[key];
  }
  return found;
}

function printed(path: readonly PropertyKey[]): string {
  return path.reduce<string>(
    (text, key) => (typeof key === "number" ? `${text}[${key}]` : text === "" ? String(key) : `${text}.${String(key)}`),
    "",
  );
}

/**
 * What stands for a value that a preview does not know yet. The process for dynamic resources passes it on as it comes over
 * the wire (`unknownValue` in `@pulumi/pulumi/runtime/rpc`).
 */
export const unknownValue = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";

/** Whether the value, or anything in it, is not known yet. */
export function hasUnknown(value: unknown): boolean {
  if (value === unknownValue) return true;
  return typeof value === "object" && value !== null && Object.values(value).some(hasUnknown);
}

/** Pulumi shows the message of an error alone: so what to do about it, and the code, go into that. */
export function withHints(handler: ResourceHandler): ResourceHandler {
  return {
    check: (...values) => told(handler.check(...values)),
    diff: (...values) => told(handler.diff(...values)),
    create: (...values) => told(handler.create(...values)),
    read: (...values) => told(handler.read(...values)),
    update: (...values) => told(handler.update(...values)),
    delete: (...values) => told(handler.delete(...values)),
  };
}

async function told<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    throw error instanceof RametError ? new Error(error.describe(), { cause: error }) : error;
  }
}
