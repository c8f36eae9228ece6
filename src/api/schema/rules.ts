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

/** Exactly one of the fields must be set. */
export function exactlyOne<Field extends string>(
  fields: readonly Field[],
  message: string,
): Rule<{ [Key in Field]?: unknown }> {
  return {
    cel: `${fields.map((field) => `(has(self.${field}) ? 1 : 0)`).join(" + ")} == 1`,
    message,
    holds: (value) => fields.filter((field) => value[field] !== undefined).length === 1,
  };
}

/** Two fields exclude each other. */
export function exclusive<Field extends string>(
  one: Field,
  other: Field,
  message: string,
): Rule<{ [Key in Field]?: unknown }> {
  return {
    cel: `!(has(self.${one}) && has(self.${other}))`,
    message,
    fieldPath: `.${other}`,
    holds: (value) => value[one] === undefined || value[other] === undefined,
  };
}

/** A field is allowed only with one of the others. */
export function onlyWith<Field extends string>(
  field: Field,
  others: readonly Field[],
  message: string,
): Rule<{ [Key in Field]?: unknown }> {
  return {
    cel: `${others.map((other) => `has(self.${other})`).join(" || ")} || !has(self.${field})`,
    message,
    fieldPath: `.${field}`,
    holds: (value) => value[field] === undefined || others.some((other) => value[other] !== undefined),
  };
}

/** The name of an object is a DNS label of limited length. */
export function labelName(most: number, message: string): Rule<{ metadata: { name?: string | undefined } }> {
  const pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
  return {
    cel: `self.metadata.name.size() <= ${most} && self.metadata.name.matches('${pattern}')`,
    message,
    holds: ({ metadata: { name } }) => name === undefined || (name.length <= most && new RegExp(pattern).test(name)),
  };
}

/** A list that the API server replaces as a whole. */
export function atomicList<Item extends z.ZodType>(item: Item) {
  return z.array(item).meta({ "x-kubernetes-list-type": "atomic" });
}

/** A list whose items a field identifies. */
export function listBy<Item extends z.ZodType>(key: string, item: Item) {
  return z.array(item).meta({ "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key] });
}

export const OptionalText = z.string().optional();
export const OptionalFlag = z.boolean().optional();
export const OptionalTexts = atomicList(z.string()).optional();

/** Integers of Kubernetes' types with 32 bits. */
export const int32 = z.int().meta({ format: "int32" });

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

/** The bytes of one variable of a process: with its `=` and its end, it is one string of 128 KiB (Linux, MAX_ARG_STRLEN). */
const mostVariableBytes = (128 << 10) - 2;

/** Why no process can have this variable. Undefined: it can. */
export function variableProblem(name: string, value: string): string | undefined {
  if (name === "" || /[=\0]/.test(name)) return `${JSON.stringify(name.slice(0, 80))} is not a valid variable name`;
  if (value.includes("\0")) return `the value of ${name} contains a NUL byte`;
  const bytes = Buffer.byteLength(name) + Buffer.byteLength(value);
  if (bytes <= mostVariableBytes) return undefined;
  return `${name} has ${bytes} bytes with its value; ${mostVariableBytes} are the most`;
}

/** The problem of the first variable that no process can have. */
export function environmentProblem(environment: Readonly<Record<string, string>>): string | undefined {
  return Object.entries(environment)
    .map(([name, value]) => variableProblem(name, value))
    .find((problem) => problem !== undefined);
}
