import * as z from "zod";

/** One rule about a value, said twice: in CEL for the API server and as a predicate for everybody else. */
export interface Rule<T> {
  /** CEL over `self`, and `oldSelf` for a rule about a change. */
  cel: string;
  /** What the reader is told. It names the field. */
  message: string;
  /** Relative to the value, like `.podName`: to which field the API server attaches the message. */
  fieldPath?: string;
  /** The same rule here. Absent for rules about a change, which only the API server can judge. */
  holds?: (value: T) => boolean;
}

/** The schema with the rules: parsing checks them, and the CRD carries them as `x-kubernetes-validations`. */
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
 * What the reference keeps without a schema: the API server stores it as it is and checks nothing, so whoever reads it
 * must parse it and say in a condition what is wrong. `type: object` is there because CEL cannot see a field without a type.
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
