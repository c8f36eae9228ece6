import type { Condition } from "../schema/metadata.ts";
import { type AcceptingKind, type IgnoredField, type IgnoredReason, ignoredFields } from "./ignored-fields.ts";

/** A field of an object that has no effect. */
export interface FoundField {
  /** Like `spec.runtimes[0].name csi`. */
  path: string;
  reason: Exclude<IgnoredReason, "SeveralReasons">;
  why: string;
}

/** The parts of an object, or of a manifest, that can have fields without effect. */
interface Accepting {
  metadata?: { annotations?: Record<string, string> | undefined };
  spec: object;
}

/** Finds the fields of an object that have no effect, in the order of the table. A pure function. */
export function findIgnored(kind: AcceptingKind, object: Accepting): FoundField[] {
  return ignoredFields
    .filter(({ kinds }) => kinds.includes(kind))
    .flatMap((field) =>
      valuesAt(object, field.path)
        .filter(({ value, key }) => requests(value) && (field.only?.holds(value, key) ?? true))
        .map(({ at, value }) => found(field, at, value)),
    );
}

/**
 * Finds the fields of a SandboxTemplate that have no effect for an object which names it.
 * @param own the spec of that object: its fields take precedence
 */
export function findIgnoredInTemplate(template: { name: string; spec: object }, own: object = {}): FoundField[] {
  const spec = Object.fromEntries(Object.entries(template.spec).filter(([field]) => !(field in own)));
  return findIgnored("SandboxTemplate", { spec }).map((field) => ofTemplate(template.name, field));
}

export function ofTemplate(name: string, { path, ...field }: FoundField): FoundField {
  return { path: `SandboxTemplate ${name}: ${path}`, ...field };
}

function found({ namesValue, reason, why }: IgnoredField, at: string, value: unknown): FoundField {
  const isNamed = namesValue === true && typeof value === "string";
  return { path: isNamed ? `${at} ${printable(value, longestValue)}` : at, reason, why };
}

/** The API server limits neither the names of runtimes nor the texts of strategies. */
const longestValue = 40;

/** A text in a message: a template has no schema, so it can be long and have any characters. */
export function printable(text: string, longest: number): string {
  const shown = text.replace(/[^\x20-\x7e…]/g, "?");
  return shown.length <= longest ? shown : `${shown.slice(0, longest)}…`;
}

/** Empty objects and lists request nothing. */
function requests(value: unknown): boolean {
  if (value === undefined || value === null) return false;
  if (typeof value !== "object") return true;
  return Object.values(value).some(requests);
}

/** A value inside an object. */
interface ValueAt {
  value: unknown;
  /** Its path with the indices of lists: `spec.runtimes[0].name`. */
  at: string;
  /** The last name in the path. */
  key: string;
}

/**
 * Returns the values at a path. `x[]` is each item of a list, `x[0]` the first, `x[y]` the entry y of a map, and `x.*` each field of an
 * object. Values of other types than the path expects have nothing there: a Pod template has no schema.
 */
function valuesAt(root: unknown, path: string): ValueAt[] {
  return stepsOf(path).reduce<ValueAt[]>(
    (all, step) => all.flatMap((place) => next(place, step)),
    [{ value: root, at: "", key: "" }],
  );
}

type Step = { field: string } | { entry: string };

function stepsOf(path: string): Step[] {
  return [...path.matchAll(/\[([^\]]*)\]|[^.[\]]+/g)].map(([field, entry]) =>
    entry === undefined ? { field } : { entry },
  );
}

function next({ value, at }: ValueAt, step: Step): ValueAt[] {
  if (typeof value !== "object" || value === null) return [];
  if ("field" in step) {
    const dot = at === "" ? "" : ".";
    const fields = step.field === "*" ? Object.keys(value) : [step.field];
    return fields.flatMap((field) => own(value, field, `${at}${dot}${field}`));
  }
  if (step.entry !== "") return own(value, step.entry, `${at}[${step.entry}]`);
  return Array.isArray(value) ? value.flatMap((_, index) => own(value, `${index}`, `${at}[${index}]`)) : [];
}

function own(value: object, key: string, at: string): ValueAt[] {
  return Object.hasOwn(value, key) ? [{ value: (value as Record<string, unknown>)[key], at, key }] : [];
}

/** The type of the condition. Absent: every field of the object has an effect. */
export const fieldsIgnored = "FieldsIgnored";

interface IgnoredCondition extends Omit<Condition, "lastTransitionTime"> {
  type: typeof fieldsIgnored;
  status: "True";
  reason: IgnoredReason;
}

/**
 * Returns the condition that names fields without effect; undefined without any. It depends on nothing but the fields, so it
 * changes only with them.
 */
export function ignoredCondition(fields: readonly FoundField[]): IgnoredCondition | undefined {
  const [first] = fields;
  if (first === undefined) return undefined;
  const isOne = fields.every(({ reason }) => reason === first.reason);
  const reason = isOne ? first.reason : "SeveralReasons";
  return { type: fieldsIgnored, status: "True", reason, message: describeIgnored(fields) };
}

/** Names the fields, by why they have no effect, in at most 1024 characters. */
export function describeIgnored(fields: readonly FoundField[]): string {
  const named = fields.slice(0, mostFields);
  const sentences = [...Map.groupBy(named, ({ why }) => why)].map(([why, group]) => {
    const verb = group.length === 1 ? "has" : "have";
    return `${group.map(({ path }) => printable(path, longestPath)).join(", ")} ${verb} no effect: ${why}`;
  });
  const more = fields.length > named.length ? `, and ${fields.length - named.length} more fields` : "";
  const text = sentences.join(". ");
  const room = longestMessage - more.length;
  return (text.length <= room ? text : `${text.slice(0, room - 1)}…`) + more;
}

/** A Pod template and its lists have no schema, so an object can have thousands of them. */
const mostFields = 10;
/** As OpenKruise Agents limits the messages of its conditions. */
const longestMessage = 1024;

const longestPath = 120;
