import type { Condition } from "../api/schema/metadata.ts";

/**
 * Sets one condition. `lastTransitionTime` changes only with `status`. Returns the same array if nothing changes.
 */
export function setCondition(
  conditions: Condition[],
  desired: Omit<Condition, "lastTransitionTime">,
  now: Date,
): Condition[] {
  const known = findCondition(conditions, desired.type);
  if (known !== undefined && isSame(known, desired)) return conditions;
  const lastTransitionTime =
    known?.status === desired.status ? known.lastTransitionTime : now.toISOString().replace(/\.\d+Z$/, "Z");
  const condition = { ...desired, lastTransitionTime };
  return known === undefined
    ? [...conditions, condition]
    : conditions.map((other) => (other.type === desired.type ? condition : other));
}

export function findCondition(conditions: readonly Condition[] | undefined, type: string): Condition | undefined {
  return conditions?.find((condition) => condition.type === type);
}

export function isConditionTrue(conditions: readonly Condition[] | undefined, type: string): boolean {
  return findCondition(conditions, type)?.status === "True";
}

function isSame(known: Condition, desired: Omit<Condition, "lastTransitionTime">): boolean {
  return (
    known.status === desired.status &&
    known.reason === desired.reason &&
    known.message === desired.message &&
    known.observedGeneration === desired.observedGeneration
  );
}
