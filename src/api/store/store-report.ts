import { systemNamespace } from "../names/system-names.ts";
import { Problem } from "../schema/problem.ts";

/** The ConfigMap in which the controllers report what they know of the store. Nothing decides by it. */
export const storeReportMap = { namespace: systemNamespace, name: "ramet-store" } as const;

/** Its entries. */
export const storeReportKeys = {
  checkedAt: "checked-at",
  problem: "problem",
  captureProblem: "capture-problem",
  dataMissing: "data-missing",
} as const;

/** The controllers' knowledge of the store. Problems are JSON in the ConfigMap. */
export interface StoreReport {
  /** When the controllers last checked it, as RFC 3339. */
  checkedAt: string;
  /** The result of the last check. */
  problem?: Problem | undefined;
  /** Why the last capture could not use it. Cells can lack access that the controllers have. */
  captureProblem?: Problem | undefined;
  /** How many checkpoints have no data in it. */
  dataMissing: number;
}

/** Undefined: the controllers have not reported yet. */
export function parseStoreReport(data: Readonly<Record<string, string>> = {}): StoreReport | undefined {
  const checkedAt = data[storeReportKeys.checkedAt];
  if (checkedAt === undefined || Number.isNaN(Date.parse(checkedAt))) return undefined;
  return {
    checkedAt,
    problem: problemIn(data[storeReportKeys.problem]),
    captureProblem: problemIn(data[storeReportKeys.captureProblem]),
    dataMissing: Number(data[storeReportKeys.dataMissing]) || 0,
  };
}

function problemIn(text: string | undefined): Problem | undefined {
  return text === undefined ? undefined : Problem.parse(JSON.parse(text));
}

/** Codes of errors of the store itself, and not of one checkpoint. */
export const storeCodes: ReadonlySet<string> = new Set([
  "StoreUnavailable",
  "StoreReadOnly",
  "StoreFull",
  "StoreOfAnotherCluster",
  "KeyUnavailable",
]);
