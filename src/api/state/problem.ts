import * as z from "zod";
import { isErrorCode } from "../../base/error-codes.ts";
import { RametError, type RametErrorOptions } from "../../base/errors.ts";
import { Time } from "../schema/metadata.ts";

/** An object of the same namespace. */
export const ObjectName = z.object({ kind: z.string(), name: z.string() });
export type ObjectName = z.infer<typeof ObjectName>;

/** What a condition reports, for programs. Its message says the same to people. */
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

/** A status with problems: that of a kind of OpenKruise Agents has them below `ramet`. */
export interface WithProblems {
  problems?: Problems | undefined;
  ramet?: { problems?: Problems | undefined } | undefined;
}

/** The problem that a condition of an object reports. Undefined: none, or an earlier controller has written the status. */
export function problemIn(status: WithProblems | undefined, type = "Ready"): Problem | undefined {
  return (status?.ramet?.problems ?? status?.problems)?.[type];
}

/** As {@link problemIn}, or only the texts of a condition that has none. */
export function reportedBy(
  status: WithProblems | undefined,
  { type, reason, message }: { type: string; reason: string; message: string },
): Problem {
  return problemIn(status, type) ?? { code: reason, cause: message };
}

/** @param context what failed because of the error, as a prefix of the cause */
export function problemOf(error: RametError, context?: string): Problem {
  const { code, message: cause, hint } = error;
  return within({ code, cause, ...(hint !== undefined && { hint }) }, context);
}

/** A problem that makes something else fail, which `context` names. */
export function within(problem: Problem, context: string | undefined): Problem {
  return context === undefined ? problem : { ...problem, cause: `${context}: ${problem.cause}` };
}

/** The error for an operation that failed because of a problem. */
export function errorOf({ code, cause, hint }: Problem, context?: string): RametError {
  const options: RametErrorOptions = hint === undefined ? {} : { hint };
  const message = context === undefined ? cause : `${context}: ${cause}`;
  return new RametError(isErrorCode(code) ? code : "Internal", message, options);
}

/** As `RametError.describe()`: `cause. hint [code]`. */
export function printProblem(problem: Problem): string {
  return isErrorCode(problem.code) ? `${describeProblem(problem)} [${problem.code}]` : describeProblem(problem);
}

/** Cause and hint in one sentence, for a message of OpenKruise Agents or one without a code: `cause; hint`. */
export function sentenceOf({ cause, hint }: Pick<Problem, "cause" | "hint">): string {
  return hint === undefined ? cause : `${cause}; ${hint.charAt(0).toLowerCase()}${hint.slice(1)}`;
}

/** Cause and hint for people, without the code. */
export function describeProblem({ cause, hint }: Problem): string {
  return hint === undefined ? cause : `${cause}. ${hint}`;
}
