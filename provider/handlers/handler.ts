import { canonicalJson } from "../../src/base/canonical-json.ts";

/**
 * The lifecycle of one type of resource, independent of Pulumi. `provider/*.ts` passes it to Pulumi's process for
 * dynamic resources. All values are plain JSON and contain secrets in clear text: never log them.
 */
export interface ResourceHandler {
  /** Validates the program's inputs and adds derived ones. Also called in previews, with unknown values. */
  check(olds: Values, news: Values): Promise<CheckResult>;
  /** @param olds the state: the last result of `create`, `update` or `read` */
  diff(id: string, olds: Values, news: Values): Promise<DiffResult>;
  create(inputs: Values): Promise<{ id: string; outs: Values }>;
  /** Returns an empty id if the object does not exist. */
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

/** The configuration of the stack with all namespaces, from Pulumi's process. */
export interface StackConfiguration {
  get(key: string): string | undefined;
}

export interface HandlerContext {
  configuration: StackConfiguration;
  environment: Readonly<Record<string, string | undefined>>;
  log: (line: string) => void;
  /** Aborted when the user cancels the run: waits end, and what they wait for continues in the cluster. */
  signal: AbortSignal;
}

/** The properties whose change replaces or updates a resource. Others belong to the state, and changing them does nothing. */
export type DiffTable = Readonly<Record<"immutable" | "mutable", readonly string[]>>;

export function changedProperties({ immutable, mutable }: DiffTable, olds: Values, news: Values): string[] {
  return [...immutable, ...mutable].filter((property) => differ(olds[property], news[property]));
}

/**
 * Returns the required operation. An object with a new name is created before the old one is deleted, so that objects
 * that refer to it can follow. With the same name the old one is deleted first.
 */
export function diffByTable(table: DiffTable, olds: Values, news: Values): DiffResult {
  const changed = changedProperties(table, olds, news);
  const replaces = changed.filter((property) => table.immutable.includes(property));
  const isMoved = replaces.includes("name") || replaces.includes("namespace");
  return { changes: changed.length > 0, replaces, deleteBeforeReplace: replaces.length > 0 && !isMoved };
}

function differ(before: unknown, after: unknown): boolean {
  return canonicalJson(before ?? null) !== canonicalJson(after ?? null);
}

/** The inputs without absent values, which Pulumi passes as null. */
export function givenInputs(news: Values): Values {
  return Object.fromEntries(Object.entries(news).filter(([, value]) => value !== null && value !== undefined));
}

/** The result of `read` for an object that does not exist. */
export const notFound = { id: "", props: {} };

export function progressOf({ log }: Pick<HandlerContext, "log">, name: string): (line: string) => void {
  return (line) => {
    log(`${name}: ${line}`);
  };
}
