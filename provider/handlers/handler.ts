import { canonicalJson } from "../../src/base/canonical-json.ts";

/**
 * What one sort of resource does at each step of its life, without Pulumi: `provider/*.ts` hands it to Pulumi's process for
 * dynamic resources. All values are plain JSON; secrets are in clear here, and go no further than where they belong.
 */
export interface ResourceHandler {
  /** Judges what the program wishes, and adds what follows from it. Called in previews too, with unknown values. */
  check(olds: Values, news: Values): Promise<CheckResult>;
  /** @param olds what the state holds: what `create`, `update` or `read` answered */
  diff(id: string, olds: Values, news: Values): Promise<DiffResult>;
  create(inputs: Values): Promise<{ id: string; outs: Values }>;
  /** An empty id: it is gone. */
  read(id: string, props: Values): Promise<{ id: string; props: Values; inputs?: Values }>;
  update(id: string, olds: Values, news: Values): Promise<{ outs: Values }>;
  delete(id: string, props: Values): Promise<void>;
}

export type Values = Record<string, unknown>;

export interface CheckResult {
  inputs: Values;
  failures: { property: string; reason: string }[];
}

export interface DiffResult {
  changes: boolean;
  replaces: string[];
  deleteBeforeReplace: boolean;
}

/** The configuration of the stack, all namespaces, as Pulumi's process hands it over. */
export interface StackConfiguration {
  get(key: string): string | undefined;
}

/** What a handler is made from. */
export interface HandlerContext {
  configuration: StackConfiguration;
  environment: Readonly<Record<string, string | undefined>>;
  /** Tells a person what is going on, one line at a time. */
  say: (line: string) => void;
}

/** Lines on the standard output of Pulumi's process for dynamic resources are shown to the user while the resource is made. */
export function logToStdout(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** What a change of each property of a resource means. */
export type DiffTable = Readonly<Record<string, "immutable" | "mutable" | "ignored">>;

/** The properties that differ, by the table; what stands in no table is the state's own and means nothing. */
export function changedProperties(table: DiffTable, olds: Values, news: Values): string[] {
  return Object.entries(table)
    .filter(([property, meaning]) => meaning !== "ignored" && differ(olds[property], news[property]))
    .map(([property]) => property);
}

/**
 * What has to be done about it. Under another name the new object is made first, so that what refers to the old one can
 * follow; under the same name the old one has to go first.
 */
export function diffByTable(table: DiffTable, olds: Values, news: Values): DiffResult {
  const changed = changedProperties(table, olds, news);
  const replaces = changed.filter((property) => table[property] === "immutable");
  const isMoved = replaces.includes("name") || replaces.includes("namespace");
  return { changes: changed.length > 0, replaces, deleteBeforeReplace: replaces.length > 0 && !isMoved };
}

function differ(before: unknown, after: unknown): boolean {
  return canonicalJson(before ?? null) !== canonicalJson(after ?? null);
}
