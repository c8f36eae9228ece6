import { type FoundField, fieldsIgnored, ignoredCondition } from "../api/fields/find-ignored.ts";
import type { Condition } from "../api/schema/metadata.ts";
import type { Problem, Problems } from "../api/schema/problem.ts";
import { type WithProblems, describeProblem, printProblem, problemIn } from "../api/state/problem.ts";
import { defined } from "../base/defined.ts";
import { type ErrorCode, isErrorCode } from "../base/error-codes.ts";
import { RametError } from "../base/errors.ts";

/** A condition to set, with the problem that it reports. `Type`: the conditions of the kind. */
export interface ConditionChange<Type extends string = string> extends Pick<Condition, "status" | "reason"> {
  type: Type;
  /** @default that of the problem, or empty */
  message?: string;
  problem?: Problem | undefined;
}

interface Reporting extends WithProblems {
  conditions?: Condition[] | undefined;
}

/**
 * Sets conditions and the problems that they report, for a kind whose status has them below `ramet`.
 * @param drop the types of conditions that are removed, unless they are set
 */
export function report<S extends Reporting>(
  status: S,
  changes: readonly ConditionChange[],
  { now, drop = [] }: { now: Date; drop?: readonly string[] },
): S & { conditions: Condition[] } {
  const { conditions, problems } = applied(status.conditions, status.ramet?.problems, { changes, drop, now });
  const { problems: _, ...ramet } = status.ramet ?? {};
  const { ramet: __, ...others } = status;
  const isEmpty = problems === undefined && Object.keys(ramet).length === 0;
  return { ...others, conditions, ...(!isEmpty && { ramet: { ...ramet, ...defined({ problems }) } }) } as S & {
    conditions: Condition[];
  };
}

/** The conditions and problems after changes. A problem belongs to its condition, and ends with it or with its problem. */
export function applied(
  before: readonly Condition[] = [],
  known: Problems = {},
  { changes, drop, now }: { changes: readonly ConditionChange[]; drop: readonly string[]; now: Date },
): { conditions: Condition[]; problems: Problems | undefined } {
  const types = new Set(changes.map(({ type }) => type));
  const kept = before.filter(({ type }) => types.has(type) || !drop.includes(type));
  const conditions = changes.reduce<Condition[]>(
    (all, { problem, message = problem ? printProblem(problem) : "", ...one }) =>
      setCondition(all, { ...one, message }, now),
    kept,
  );
  const others = Object.entries(known).filter(
    ([type]) => !types.has(type) && conditions.some((condition) => condition.type === type),
  );
  const own = changes.flatMap(({ type, problem }) => (problem === undefined ? [] : [[type, problem] as const]));
  const problems = Object.fromEntries([...others, ...own]);
  return { conditions, problems: Object.keys(problems).length === 0 ? undefined : problems };
}

/** The conditions of an object that waiting does not make ready. The reason is the problem's code, unless clients know another one. */
export function stalled(
  message: string,
  problem: Problem,
  reason = problem.code,
): [ConditionChange<"Ready">, ConditionChange<"Stalled">] {
  return [
    { type: "Ready", status: "False", reason, message, problem },
    { type: "Stalled", status: "True", reason, message },
  ];
}

/** The API server refuses a longer message, and so the whole status. */
const longestMessage = 32_768;

/**
 * Sets one condition. `lastTransitionTime` changes only with `status`. Returns the same array if nothing changes.
 */
export function setCondition(
  conditions: Condition[],
  change: Omit<Condition, "lastTransitionTime">,
  now: Date,
): Condition[] {
  const desired = { ...change, message: change.message.slice(0, longestMessage).toWellFormed() };
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
