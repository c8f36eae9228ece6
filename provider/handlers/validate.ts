import type * as z from "zod";
import { RametError } from "../../src/base/errors.ts";
import { type CheckResult, givenInputs, type ResourceHandler, type Values } from "./handler.ts";
import { parseTimeSpan } from "./time-span.ts";

/**
 * Validates the values against the schema. Errors of unknown values, or of values that contain unknown ones, are left
 * out until the values are known.
 */
export function validate(schema: z.ZodType, values: Values): CheckResult["failures"] {
  const result = schema.safeParse(values);
  if (result.success) return [];
  return result.error.issues.flatMap(({ path, message }) =>
    hasUnknown(closest(values, path)) ? [] : [{ property: printed(path), reason: message }],
  );
}

/** Validates the inputs of a resource. @param timeSpans the properties that are durations */
export function checkInputs(schema: z.ZodType, news: Values, timeSpans: readonly string[]): CheckResult {
  const inputs = givenInputs(news);
  const failures = timeSpans.flatMap((property) => validateTimeSpan(inputs, property));
  return { inputs, failures: [...validate(schema, inputs), ...failures] };
}

/** The problems of an input that is a duration. Unknown and absent values have none. */
export function validateTimeSpan(inputs: Values, property: string): CheckResult["failures"] {
  const text = inputs[property];
  if (typeof text !== "string" || hasUnknown(text)) return [];
  try {
    parseTimeSpan(text, "it");
    return [];
  } catch (error) {
    return [{ property, reason: RametError.from(error).describe() }];
  }
}

/** The value at the path, or the last existing value on the way. */
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
 * Represents a value that a preview does not know yet. The process for dynamic resources passes it on unchanged
 * (`unknownValue` in `@pulumi/pulumi/runtime/rpc`).
 */
export const unknownValue = "04da6b54-80e4-46f7-96ec-b56ff0331ba9";

export function hasUnknown(value: unknown): boolean {
  if (value === unknownValue) return true;
  return typeof value === "object" && value !== null && Object.values(value).some(hasUnknown);
}

/** Pulumi shows only the message of an error, so this adds the hint and the code to the message. */
export function withHints(handler: ResourceHandler): ResourceHandler {
  return {
    check: (...values) => describeErrors(handler.check(...values)),
    diff: (...values) => describeErrors(handler.diff(...values)),
    create: (...values) => describeErrors(handler.create(...values)),
    read: (...values) => describeErrors(handler.read(...values)),
    update: (...values) => describeErrors(handler.update(...values)),
    delete: (...values) => describeErrors(handler.delete(...values)),
  };
}

async function describeErrors<T>(result: Promise<T>): Promise<T> {
  try {
    return await result;
  } catch (error) {
    throw error instanceof RametError ? new Error(error.describe(), { cause: error }) : error;
  }
}
