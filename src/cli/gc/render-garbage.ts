import { stringify } from "yaml";
import type { Garbage } from "../../controllers/collect/garbage.ts";
import { size } from "../output/size.ts";
import { table } from "../output/table.ts";
import type { StoreTold } from "./sweep-store.ts";

export type GarbageOutput = "table" | "json" | "yaml";

/** `changed`: it is not as it was when it was looked at, and was left alone. `due`: its own controller will delete it. */
export interface Told extends Garbage {
  outcome: "planned" | "removed" | "changed" | "failed" | "due";
}

export interface RenderGarbageOptions {
  output: GarbageOutput;
  dryRun: boolean;
  /** Stands in documents alone. */
  store: StoreTold;
  withNamespace: boolean;
}

/** What goes or went and why, and how much that is together. */
export function renderGarbage(
  told: readonly Told[],
  { output, dryRun, store, withNamespace }: RenderGarbageOptions,
): string {
  const counted = told.filter(({ outcome }) => outcome === (dryRun ? "planned" : "removed"));
  const total = { objects: counted.length, bytes: counted.reduce((sum, { bytes = 0 }) => sum + bytes, 0) };
  if (output !== "table") {
    const document = { dryRun, items: told.map(shown), total, store };
    return output === "json" ? `${JSON.stringify(document, undefined, 2)}\n` : stringify(document);
  }
  const headings = ["KIND", "NAME", "SIZE", "OUTCOME", "WHY"];
  const rows = told.map(({ kind, name, bytes, outcome, why }) => [kind, name, size(bytes), words[outcome], why]);
  const lines = withNamespace
    ? table(
        ["NAMESPACE", ...headings],
        rows.map((row, index) => [told[index]?.namespace ?? "", ...row]),
      )
    : table(headings, rows);
  const objects = total.objects === 1 ? "1 object" : `${total.objects} objects`;
  return `${lines}${dryRun ? "Would remove" : "Removed"} ${objects}, at most ${size(total.bytes)} of data.\n`;
}

const words: Readonly<Record<Told["outcome"], string>> = {
  planned: "goes",
  removed: "removed",
  changed: "has changed",
  failed: "failed",
  due: "due",
};

function shown({ resourceVersion: _, ...item }: Told): object {
  return item;
}
