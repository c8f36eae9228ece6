import { problemIn, type Problem, type WithProblems } from "../../api/state/problem.ts";
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
}

/** The Event that was last observed of an object. */
export interface LastEvent {
  reason: string;
  /** The text of a driver, limited and without control characters. */
  message: string;
  /** RFC 3339. */
  at: string;
}

/** Recognizes one cause; undefined if it is another one. A pure function. */
export type Rule<Facts> = (facts: Facts) => Explanation | undefined;

/** Applies rules in order. The first that recognizes the cause counts. */
export function firstOf<Facts>(...rules: readonly Rule<Facts>[]): Rule<Facts> {
  return (facts) => {
    for (const rule of rules) {
      const explanation = rule(facts);
      if (explanation !== undefined) return explanation;
    }
    return undefined;
  };
}

/** What a condition reports: its problem, or only the text of an earlier controller. */
export function reportedBy(status: WithProblems | undefined, type: string, text: string): Report {
  return problemIn(status, type) ?? { cause: withoutStop(text) };
}

export type Report = Pick<Problem, "cause"> & Partial<Problem>;

/** The parts of `RametError.describe()`. */
export interface Description {
  cause: string;
  hint?: string;
  code?: ErrorCode;
}

/** Takes the text of a condition apart into what failed, what to do, and the code. */
export function readDescription(text: string): Description {
  const [, before, code] = /^(.*) \[([A-Z][A-Za-z]+)\]$/s.exec(text) ?? [];
  return before !== undefined && isErrorCode(code) ? { ...splitHint(before), code } : { cause: withoutStop(text) };
}

/** A hint is one imperative without a full stop, so it follows the last one. */
export function splitHint(text: string): Pick<Description, "cause" | "hint"> {
  const at = text.lastIndexOf(". ");
  const hint = text.slice(at + 2);
  return at > 0 && /^[A-Z][a-z]+ /.test(hint) ? { cause: text.slice(0, at), hint } : { cause: withoutStop(text) };
}

/** The hint of a description, else what its code means, else `otherwise`. */
export function remedyIn({ hint, code }: Report, otherwise: string): string {
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
