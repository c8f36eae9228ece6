import type { Condition } from "../api/schema/metadata.ts";

/**
 * The conditions with one set. `lastTransitionTime` moves only if `status` does; if nothing differs, the same array
 * comes back.
 */
export function setCondition(
  conditions: Condition[],
  wanted: Omit<Condition, "lastTransitionTime">,
  now: Date,
): Condition[] {
  const known = findCondition(conditions, wanted.type);
  if (known !== undefined && isSame(known, wanted)) return conditions;
  const lastTransitionTime =
    known?.status === wanted.status ? known.lastTransitionTime : now.toISOString().replace(/\.\d+Z$/, "Z");
  const condition = { ...wanted, lastTransitionTime };
  return known === undefined
    ? [...conditions, condition]
    : conditions.map((other) => (other.type === wanted.type ? condition : other));
}

export function findCondition(conditions: readonly Condition[] | undefined, type: string): Condition | undefined {
  return conditions?.find((condition) => condition.type === type);
}

export function isConditionTrue(conditions: readonly Condition[] | undefined, type: string): boolean {
  return findCondition(conditions, type)?.status === "True";
}

function isSame(known: Condition, wanted: Omit<Condition, "lastTransitionTime">): boolean {
  return (
    known.status === wanted.status &&
    known.reason === wanted.reason &&
    known.message === wanted.message &&
    known.observedGeneration === wanted.observedGeneration
  );
}
