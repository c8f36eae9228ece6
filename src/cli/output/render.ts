import { stringify } from "yaml";
import { readableBytes } from "../../base/quantity.ts";
import type { KubeObject } from "../../kube/object.ts";
import { visible } from "../../base/visible.ts";

/** `name` prints only names, one per line, for scripts. */
export const outputFormats = ["table", "json", "yaml", "name"] as const;
export type OutputFormat = (typeof outputFormats)[number];

export interface Column {
  heading: string;
  cell: (object: KubeObject, now: Date) => string;
}

export interface RenderOptions {
  output: OutputFormat;
  columns: readonly Column[];
  now: Date;
  /** Adds a column with the namespace to the table. */
  withNamespace?: boolean;
  /** The terminal's columns, to which the lines of the table are cut. @default no limit */
  width?: number | undefined;
}

/** Objects as text: a table, a Kubernetes `List` in JSON or YAML, or names. */
export function renderList(objects: readonly KubeObject[], options: RenderOptions): string {
  if (options.output === "json" || options.output === "yaml") {
    return documentOf({ apiVersion: "v1", kind: "List", items: objects.map(shown) }, options.output);
  }
  if (options.output === "name") return objects.map(({ metadata }) => `${metadata.name}\n`).join("");
  const namespace: Column = { heading: "NAMESPACE", cell: ({ metadata }) => metadata.namespace ?? "" };
  const columns = options.withNamespace === true ? [namespace, ...options.columns] : options.columns;
  return table(
    columns.map(({ heading }) => heading),
    objects.map((object) => columns.map(({ cell }) => cell(object, options.now))),
    options.width,
  );
}

/** One object as text; in JSON and YAML without a `List` around it. */
export function renderObject(object: KubeObject, options: RenderOptions): string {
  return options.output === "json" || options.output === "yaml"
    ? documentOf(shown(object), options.output)
    : renderList([object], options);
}

/** Without `managedFields`, which is often the larger half of an object. */
function shown(object: KubeObject): unknown {
  const { managedFields: _, ...metadata } = object.metadata;
  return { ...object, metadata };
}

export function documentOf(value: unknown, output: "json" | "yaml"): string {
  return output === "json" ? `${JSON.stringify(value, undefined, 2)}\n` : stringify(value);
}

/**
 * Rows under headings, in columns as wide as their widest cell, three spaces apart. Ends with a line break.
 *
 * @param width the terminal's columns, to which lines are cut. @default no limit
 */
export function table(headings: readonly string[], rows: readonly (readonly string[])[], width = Infinity): string {
  const lines = [headings, ...rows.map((row) => row.map(oneLine))];
  const widths = headings.map((_, column) => Math.max(...lines.map((line) => line[column]?.length ?? 0)));
  const rendered = lines.map((line) => line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join("   "));
  return rendered.map((line) => `${clip(line.trimEnd(), width)}\n`).join("");
}

/** Cuts a line that does not fit, so that the terminal does not wrap it. */
export function clip(line: string, width: number): string {
  return line.length <= width ? line : `${line.slice(0, Math.max(0, width - 1))}…`;
}

function oneLine(text: string): string {
  return visible(text.replace(/\s+/g, " ").trim());
}

/**
 * How long ago something happened, as `kubectl get` shows it: `42s`, `5m`, `3h`, `9d`.
 *
 * @param since RFC 3339
 */
export function age(since: string | undefined, now: Date): string {
  const seconds = Math.floor((now.getTime() - Date.parse(since ?? "")) / 1000);
  if (Number.isNaN(seconds)) return "<unknown>";
  if (seconds < 120) return `${Math.max(0, seconds)}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}

/** A readable number of bytes: `512B`, `4.2MiB`, `1.5GiB`. */
export function size(bytes: number | undefined): string {
  return bytes === undefined ? "" : readableBytes(bytes);
}

interface Listed {
  namespace?: string | undefined;
  kind?: string | undefined;
  name: string;
}

/**
 * The order of all lists: by namespace, then by kind, then by name, each by its characters' codes. An API server sorts almost like
 * this, but promises no order, and puts the namespace `a-b` before `a`.
 */
export function inOrder<T>(items: readonly T[], of: (item: T) => Listed): T[] {
  return items.toSorted((a, b) => {
    const [one, other] = [of(a), of(b)];
    return compare(one.namespace, other.namespace) || compare(one.kind, other.kind) || compare(one.name, other.name);
  });
}

function compare(a = "", b = ""): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** A word of a POSIX shell. The API server accepts any text as a name in a reference. */
export function shellWord(text: string): string {
  return isPlainWord(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Whether a shell needs no quotes around a text. */
export function isPlainWord(text: string): boolean {
  return /^[\w@%+=:,./-]+$/.test(text);
}
