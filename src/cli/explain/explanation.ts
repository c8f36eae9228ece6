import type { Condition } from "../../api/schema/metadata.ts";
import type { Problem } from "../../api/schema/problem.ts";
import type { Holder } from "../../api/state/storage.ts";
import { reportedBy, type WithProblems } from "../../api/state/problem.ts";
import { type ErrorCode, errorCodes, isErrorCode } from "../../base/error-codes.ts";

export const explainedStates = ["healthy", "waiting", "degraded", "stuck", "failed"] as const;

/** Why an object is in its state, and what to do. */
export interface Explanation {
  /**
   * `waiting`: it needs more time. `degraded`: it works, but not as requested. `stuck`: it waits for somebody. `failed`: final.
   */
  state: (typeof explainedStates)[number];
  /** One sentence without a full stop. */
  cause: string;
  /** A code of docs/errors.md, or the reason that Kubernetes reports. */
  reason?: string | undefined;
  /** Since when, in RFC 3339. */
  since?: string | undefined;
  /** The next attempt without the user, and its time. */
  retry: string;
  /** The one thing to do, an imperative without a full stop. */
  action: string;
  /** The object that causes it, if it is another one: `pod/a`, `node/n`. */
  foundIn?: string | undefined;
  /** For objects without a phase in their status. */
  phase?: string | undefined;
  lastEvent?: LastEvent | undefined;
  /** Of a full store or quota of bytes: what the namespace has in the store. */
  storage?: HeldStorage | undefined;
}

export interface HeldStorage {
  usedBytes: number;
  /** The largest. */
  holders: DataHolder[];
}

export interface DataHolder extends Holder {
  /** The phase of the paused sandbox, or a sandbox that was cloned from it. */
  use?: string | undefined;
  /** The command that deletes it. Undefined: a sandbox uses it, or may use it. */
  remove?: string | undefined;
}

export interface LastEvent {
  reason: string;
  /** The text of a driver, limited and without control characters. */
  message: string;
  /** RFC 3339. */
  at: string;
}

export type Found = Pick<Explanation, "cause"> & Partial<Explanation>;

/** Recognizes one cause; undefined if it is another one. A pure function. */
export type Rule<Facts> = (facts: Facts) => Found | undefined;

/** Applies rules in order. The first that recognizes the cause counts. */
export function firstOf<Facts>(...rules: readonly Rule<Facts>[]): Rule<Facts> {
  return (facts) => {
    for (const rule of rules) {
      const found = rule(facts);
      if (found !== undefined) return found;
    }
    return undefined;
  };
}

/** Adds what a rule left out: an object is `stuck`, and a healthy one needs no retry. */
export function completed(found: Found, shared: Pick<Explanation, "since" | "retry"> = { retry: "None" }): Explanation {
  const unneeded = found.state === "healthy" && { retry: "None is needed" };
  return { state: "stuck", action: nothingToDo, ...shared, ...unneeded, ...found };
}

/** Returns the problem that a condition reports, or only the texts of an earlier controller. */
export function reportOf(status: WithProblems | undefined, condition: ReportedText): Problem {
  const problem = reportedBy(status, condition);
  return { ...problem, cause: withoutStop(problem.cause) };
}

type ReportedText = Parameters<typeof reportedBy>[1];

/** Explains a condition by its problem. @param otherwise the action if neither the problem nor its code names one */
export function reported(
  status: WithProblems | undefined,
  condition: ReportedText & Pick<Condition, "lastTransitionTime">,
  { otherwise, ...found }: Partial<Found> & { otherwise: string },
): Found {
  const problem = reportOf(status, condition);
  const { cause, code: reason } = problem;
  return { cause, reason, since: condition.lastTransitionTime, action: remedyIn(problem, otherwise), ...found };
}

/** The hint of a problem, else what its code means, else `otherwise`. */
export function remedyIn({ hint, code }: Problem, otherwise: string): string {
  return hint ?? (isErrorCode(code) ? generalRemedy(code) : otherwise);
}

/** Returns the remedy of docs/errors.md for a code. */
export function generalRemedy(code: ErrorCode): string {
  const [, ...remedy] = errorCodes[code].split(/(?<=\.) /);
  return withoutStop(remedy.at(-1) ?? errorCodes[code]);
}

export function withoutStop(text: string): string {
  return text.trim().replace(/\.$/, "");
}

/** For explanations of objects that nothing is wrong with. */
export const nothingToDo = "Nothing needs to be done";
