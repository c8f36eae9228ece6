import type { Condition } from "../api/schema/metadata.ts";
import type { Problem } from "../api/schema/problem.ts";
import { describeProblem, problemIn, type WithProblems } from "../api/state/problem.ts";
import { type ErrorCode, isErrorCode } from "../base/error-codes.ts";
import { RametError } from "../base/errors.ts";
import { findCondition } from "./conditions.ts";

/** The fields of a status that describe the object's state. */
export interface Reported {
  status?:
    | (WithProblems & {
        phase?: string | undefined;
        message?: string | undefined;
        conditions?: Condition[] | undefined;
      })
    | undefined;
}

/** The phase, and the problem if there is one: `Pending: the template x does not exist`. */
export function describeState(object: Reported | undefined): string {
  if (object === undefined) return "deleted";
  const phase = object.status?.phase ?? "waiting for the controller";
  const why = describeReport(object);
  return why === undefined ? phase : `${phase}: ${why}`;
}

/** Returns the report of an object, without the code of its problem. */
export function describeReport(object: Reported): string | undefined {
  const problem = reportedProblem(object.status);
  return problem === undefined ? messageOf(object) : describeProblem(problem);
}

/** The status's message, else that of the condition that reports the problem. */
export function messageOf({ status }: Reported): string | undefined {
  const wrong = status?.conditions?.filter((condition) => condition.status === "False") ?? [];
  const failed = status?.phase === "Failed" ? wrong[0] : undefined;
  const found = status?.message ?? wrong.find(({ type }) => type === "Ready")?.message ?? failed?.message;
  return found === "" ? undefined : found;
}

/**
 * The error for an object that failed.
 * @param type the condition that reports the failure. @default the one that the object as a whole reports
 */
export function failureOf(what: string, object: Reported, fallback: ErrorCode, type?: string): RametError {
  const { status } = object;
  const problem = type === undefined ? reportedProblem(status) : problemIn(status, type);
  if (problem !== undefined) {
    return new RametError(isErrorCode(problem.code) ? problem.code : fallback, `${what}: ${describeProblem(problem)}`);
  }
  const conditions = (status?.conditions ?? []).filter((one) => one.status === "False");
  const own = type === undefined ? conditions : conditions.filter((one) => one.type === type);
  const message = type === undefined ? messageOf(object) : findCondition(own, type)?.message;
  const code = own.map(({ reason }) => reason).find(isErrorCode) ?? fallback;
  return new RametError(code, `${what}: ${message ?? "it gave no reason"}`);
}

/** The problem of an object as a whole. That of a named snapshot is the one of its build. */
export function reportedProblem(status: Reported["status"]): Problem | undefined {
  return problemIn(status, "Ready") ?? problemIn(status, "Building");
}
