import * as z from "zod";
import { Time } from "./metadata.ts";

/** An object of the same namespace. */
export const ObjectName = z.object({
  kind: z.string().describe("The kind of the object."),
  name: z.string().describe("The name of the object."),
});
export type ObjectName = z.infer<typeof ObjectName>;

/** The report of a condition, for programs. Its message says the same to people. */
export const Problem = z.object({
  code: z.string().describe("A code of docs/errors.md; if none fits, the reason of the condition."),
  cause: z.string().describe("What failed, and why, without a full stop."),
  hint: z.string().optional().describe("What to do: an imperative without a full stop."),
  object: ObjectName.optional().describe("The object in which the cause was found, if it is another one."),
  retryAt: Time.optional().describe("When the next attempt starts. Absent: it does not wait for a time."),
});
export type Problem = z.infer<typeof Problem>;

/** The field of a status that has its problems. */
export const Problems = z
  .record(z.string(), Problem)
  .optional()
  .describe("The problems that conditions report, by the type of the condition.");
export type Problems = NonNullable<z.infer<typeof Problems>>;
