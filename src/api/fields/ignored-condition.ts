import type { Condition } from "../schema/metadata.ts";
import { type FoundField, printable } from "./find-ignored.ts";
import type { IgnoredReason } from "./ignored-fields.ts";

/** The type of the condition. Absent: every field of the object has an effect. */
export const fieldsIgnored = "FieldsIgnored";

export interface IgnoredCondition extends Omit<Condition, "lastTransitionTime"> {
  type: typeof fieldsIgnored;
  status: "True";
  reason: IgnoredReason;
}

/**
 * Returns the condition that names fields without effect; undefined without any. It depends on nothing but the fields, so it
 * changes only with them.
 */
export function ignoredCondition(fields: readonly FoundField[]): IgnoredCondition | undefined {
  const [first] = fields;
  if (first === undefined) return undefined;
  const isOne = fields.every(({ reason }) => reason === first.reason);
  const reason = isOne ? first.reason : "SeveralReasons";
  return { type: fieldsIgnored, status: "True", reason, message: describeIgnored(fields) };
}

/** Names the fields, by why they have no effect, in at most 1024 characters. */
export function describeIgnored(fields: readonly FoundField[]): string {
  const named = fields.slice(0, mostFields);
  const sentences = [...Map.groupBy(named, ({ why }) => why)].map(([why, group]) => {
    const verb = group.length === 1 ? "has" : "have";
    return `${group.map(({ path }) => printable(path, longestPath)).join(", ")} ${verb} no effect: ${why}`;
  });
  const more = fields.length > named.length ? `, and ${fields.length - named.length} more fields` : "";
  const text = sentences.join(". ");
  const room = longestMessage - more.length;
  return (text.length <= room ? text : `${text.slice(0, room - 1)}…`) + more;
}

/** A Pod template and its lists have no schema, so an object can have thousands of them. */
const mostFields = 10;
/** As OpenKruise Agents limits the messages of its conditions. */
const longestMessage = 1024;

const longestPath = 120;
