import * as z from "zod";

/** A rule about a value, written twice: in CEL for the API server and as a predicate for all other code. */
export interface Rule<T> {
  /** CEL over `self`, and `oldSelf` for a rule about a change. */
  cel: string;
  /** The error message. Names the field. */
  message: string;
  /** The field to which the API server attaches the message, relative to the value, like `.podName`. */
  fieldPath?: string;
  /** The same rule as a predicate. Absent for rules about a change, which only the API server can validate. */
  holds?: (value: T) => boolean;
}

/** Adds rules to a schema: parsing validates them, and the CRD has them as `x-kubernetes-validations`. */
export function withRules<S extends z.ZodType>(schema: S, rules: readonly Rule<z.output<S>>[]): S {
  const checked = schema.check((context) => {
    for (const { holds, message, fieldPath } of rules) {
      if (holds?.(context.value) ?? true) continue;
      const path = fieldPath === undefined ? [] : fieldPath.slice(1).split(".");
      context.issues.push({ code: "custom", message, path, input: context.value });
    }
  });
  return checked.meta({ "x-kubernetes-validations": rules.map(toCel) });
}

function toCel({ cel, message, fieldPath }: Rule<never>): Record<string, string> {
  return { rule: cel, message, ...(fieldPath === undefined ? {} : { fieldPath }) };
}

/**
 * A field for which OpenKruise Agents has no schema. The API server stores it without validation, so a controller must parse it and
 * report errors in a condition. It has `type: object` because CEL cannot access a field without a type.
 */
export const SchemalessObject = z
  .record(z.string(), z.unknown())
  .meta({ crd: { type: "object", "x-kubernetes-preserve-unknown-fields": true } });

export const SchemalessList = z.array(z.record(z.string(), z.unknown())).meta({
  crd: {
    type: "array",
    items: { type: "object", "x-kubernetes-preserve-unknown-fields": true },
    "x-kubernetes-list-type": "atomic",
  },
});
