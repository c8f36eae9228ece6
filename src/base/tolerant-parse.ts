import type * as z from "zod";
import { resultOr } from "./errors.ts";

export interface TolerantResult<T> {
  value: T;
  /** The paths of the unknown fields that were left out, such as `container.mounts.0.owner`. */
  ignored: string[];
}

/**
 * Parses a message of a peer that may be of a later version: fields that a strict schema does not know are left out. All else
 * is as strict as the schema.
 * @param closed top-level fields below which an unknown field is an error: leaving it out would permit more than the peer meant
 * @throws z.ZodError
 */
export function tolerantParse<T extends z.ZodType>(
  schema: T,
  input: unknown,
  closed: readonly string[] = [],
): TolerantResult<z.infer<T>> {
  const first = schema.safeParse(input);
  if (first.success) return { value: first.data, ignored: [] };
  const unknown = first.error.issues.filter((issue) => issue.code === "unrecognized_keys");
  const ignorable = unknown.filter(({ path }) => !closed.includes(String(path[0])));
  if (ignorable.length === 0) throw first.error;
  const value = structuredClone(input);
  const ignored = ignorable.flatMap(({ path, keys }) => {
    const object = at(value, path);
    return keys.map((key) => {
      Reflect.deleteProperty(object, key);
      return [...path, key].map(String).join(".");
    });
  });
  return { value: schema.parse(value), ignored: ignored.sort() };
}

function at(value: unknown, path: readonly PropertyKey[]): object {
  const found = path.reduce<unknown>((object, key) => (object as Record<PropertyKey, unknown>)[key], value);
  return found as object;
}

/** The value of a JSON text. Undefined for no text, and for one that is not JSON or that the schema does not accept. */
export function parsedJson<T extends z.ZodType>(schema: T, text: string | undefined): z.output<T> | undefined {
  if (text === undefined) return undefined;
  return resultOr(() => schema.parse(JSON.parse(text)), undefined);
}
