import type { z } from "zod";
import type { CheckResult, Values } from "./handler.ts";
import { hasUnknown } from "./unknown.ts";

/**
 * What is wrong with the values, by the schema. What is said of a value that is not known yet, or of one that holds such a
 * value, is left out: it is judged when it is known.
 */
export function judge(schema: z.ZodType, values: Values): CheckResult["failures"] {
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
