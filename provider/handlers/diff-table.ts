import { canonicalJson } from "../../src/base/canonical-json.ts";
import type { DiffResult, Values } from "./handler.ts";

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
