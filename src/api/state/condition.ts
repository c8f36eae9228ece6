import type { Condition } from "../schema/metadata.ts";

/** An object whose status has conditions. */
export interface WithConditions {
  status?: { conditions?: readonly Condition[] | undefined } | undefined;
}

export function conditionOf({ status }: WithConditions, type: string): Condition | undefined {
  return status?.conditions?.find((condition) => condition.type === type);
}

/** Whether the controllers have processed a generation of a spec. */
export function hasObserved(
  { status }: { status?: { observedGeneration?: number | undefined } | undefined },
  generation = 0,
): boolean {
  return (status?.observedGeneration ?? 0) >= generation;
}
