import { canonicalJson } from "../../src/base/canonical-json.ts";
import { align } from "../../src/base/align.ts";
import { joined } from "./values.ts";

export type ChangeKind = "add" | "delete" | "update";

/** The paths at which two values differ: `recipe[1].run`. Elements of lists are aligned. */
export function detailedDiff(before: unknown, after: unknown, path = ""): [path: string, kind: ChangeKind][] {
  if (before === undefined && after === undefined) return [];
  if (before === undefined) return [[path, "add"]];
  if (after === undefined) return [[path, "delete"]];
  if (canonicalJson(before) === canonicalJson(after)) return [];
  if (Array.isArray(before) && Array.isArray(after)) return listDiff(before, after, path);
  if (!isObject(before) || !isObject(after)) return [[path, "update"]];
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return keys.flatMap((key) => detailedDiff(before[key], after[key], joined(path, key)));
}

function listDiff(before: unknown[], after: unknown[], path: string): [string, ChangeKind][] {
  const { changed, removed, added } = align(before, after);
  return [
    ...changed.flatMap((index) => detailedDiff(before[index], after[index], `${path}[${index}]`)),
    ...removed.map((index): [string, ChangeKind] => [`${path}[${index}]`, "delete"]),
    ...added.map((index): [string, ChangeKind] => [`${path}[${index}]`, "add"]),
  ];
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
