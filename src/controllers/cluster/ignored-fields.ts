import { type FoundField } from "../../api/fields/find-ignored.ts";
import { fieldsIgnored, ignoredCondition } from "../../api/fields/ignored-condition.ts";
import type { Condition } from "../../api/schema/metadata.ts";
import { setCondition } from "../../kube/conditions.ts";

/**
 * The conditions with the one that names fields without effect, or without it if there are none. Returns the same array if nothing
 * changes.
 */
export function withIgnoredFields(conditions: Condition[] = [], fields: readonly FoundField[], now: Date): Condition[] {
  const desired = ignoredCondition(fields);
  if (desired !== undefined) return setCondition(conditions, desired, now);
  const others = conditions.filter(({ type }) => type !== fieldsIgnored);
  return others.length === conditions.length ? conditions : others;
}
