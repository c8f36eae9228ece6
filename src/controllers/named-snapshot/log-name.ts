import { hexOf } from "./names.ts";

/** The ConfigMap with what the steps of a build printed. */
export function logName(snapshot: string, digest: string): string {
  return `${snapshot}-log-${hexOf(digest, 12)}`;
}

/** Its keys: `step-001.log`, in the order of the steps when they are sorted. */
export function logKey(index: number): string {
  return `step-${String(index + 1).padStart(3, "0")}.log`;
}
