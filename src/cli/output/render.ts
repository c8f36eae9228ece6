import { stringify } from "yaml";
import type { KubeObject } from "../../kube/object.ts";
import { table } from "./table.ts";

/** `name` prints only names, one per line, for scripts. */
export const outputFormats = ["table", "json", "yaml", "name"] as const;
export type OutputFormat = (typeof outputFormats)[number];

/** One column of a kind's table. */
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
    return document({ apiVersion: "v1", kind: "List", items: objects.map(shown) }, options.output);
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
    ? document(shown(object), options.output)
    : renderList([object], options);
}

/** Without `managedFields`, which is often the larger half of an object. */
function shown(object: KubeObject): unknown {
  const { managedFields: _, ...metadata } = object.metadata;
  return { ...object, metadata };
}

function document(value: unknown, output: "json" | "yaml"): string {
  return output === "json" ? `${JSON.stringify(value, undefined, 2)}\n` : stringify(value);
}
