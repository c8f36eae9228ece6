import type { ErrorCode } from "../base/error-codes.ts";
import type { Unread } from "./seen.ts";

export const findingLevels = ["ok", "unknown", "warning", "error"] as const;

/** The result of one check of a cluster. */
export interface Finding {
  /** The name of the check, such as `image-volumes`. */
  check: string;
  /** `unknown`: the API does not show it, or it cannot be read. `error`: Ramet does not work without it. */
  level: (typeof findingLevels)[number];
  /** One sentence without a full stop. */
  message: string;
  /** The next step: an imperative without a full stop. Absent if nothing needs to be done. */
  action?: string;
  /** The code of the error that prevents what a program requested. */
  code?: ErrorCode;
  /** The names of all nodes that it is about, of which the message may name only some. */
  nodes?: readonly string[];
}

export function checkNamed(check: string) {
  const finding = (level: Finding["level"]) => {
    return (message: string, action: string): Finding => ({ check, level, message, action });
  };
  return {
    ok: (message: string): Finding => ({ check, level: "ok", message }),
    unknown: finding("unknown"),
    warning: finding("warning"),
    error: finding("error"),
    /** For what could not be read. */
    unread: (what: string, { unknown, refused }: Unread): Finding => {
      const asWhom =
        refused === undefined ? "again with a longer --timeout" : `as a user authorized to read ${refused}`;
      return { check, level: "unknown", message: `${what} unknown: ${unknown}`, action: `Run the checks ${asWhom}` };
    },
  };
}

/** A finding that prevents what a program requested. */
export function refusal(check: string, code: ErrorCode, message: string, action: string): Finding {
  return { ...checkNamed(check).error(message, action), code };
}

export type Check = ReturnType<typeof checkNamed>;

/** A list for a sentence: at most five, then how many more. */
export function listed(names: readonly string[]): string {
  const more = names.length - mostListed;
  return names.slice(0, mostListed).join(", ") + (more > 0 ? ` and ${more} more` : "");
}

const mostListed = 5;
