import { defined } from "../../base/defined.ts";
import { isErrorCode } from "../../base/error-codes.ts";
import { RametError, type RametErrorOptions } from "../../base/errors.ts";
import type { Condition } from "../schema/metadata.ts";
import type { Problem, Problems } from "../schema/problem.ts";

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
  return within(defined({ code, cause, hint }), context);
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
