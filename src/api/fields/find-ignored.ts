import { type AcceptingKind, type IgnoredField, ignoredFields, type IgnoredReason } from "./ignored-fields.ts";
import { valuesAt } from "./values-at.ts";

/** A field of an object that has no effect. */
export interface FoundField {
  /** Like `spec.runtimes[0].name csi`. */
  path: string;
  reason: Exclude<IgnoredReason, "SeveralReasons">;
  why: string;
}

/** The parts of an object, or of a manifest, that can have fields without effect. */
export interface Accepting {
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
  return { path: isNamed ? `${at} ${shortened(value)}` : at, reason, why };
}

/** The API server limits neither the names of runtimes nor the texts of strategies. */
function shortened(text: string): string {
  const printable = text.replace(/[^\x20-\x7e]/g, "?");
  return printable.length <= longestValue ? printable : `${printable.slice(0, longestValue)}…`;
}

const longestValue = 40;

/** Empty objects and lists request nothing. */
function requests(value: unknown): boolean {
  if (value === undefined || value === null) return false;
  if (typeof value !== "object") return true;
  return Object.values(value).some(requests);
}
