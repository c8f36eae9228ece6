import type { ErrorCode } from "../base/error-codes.ts";
import { RametError } from "../base/errors.ts";
import { type Deadline, within } from "../base/within.ts";

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

/** A fact, or why it could not be read, so that nobody takes it for absent. */
export type Seen<T> = { value: T } | Unread;

export interface Unread {
  /** The reason. */
  unknown: string;
  /** What the user is not allowed to read. */
  refused?: string;
}

/** Reads one thing within its time. @param what its plural, for the reason why it is unknown @throws RametError if the caller aborts */
export async function see<T>(
  { what, ...deadline }: Deadline,
  read: (signal: AbortSignal) => Promise<T>,
): Promise<Seen<T>> {
  try {
    return { value: await within({ ...deadline, what: `Reading ${what}` }, read) };
  } catch (thrown) {
    if (deadline.signal?.aborted === true) throw thrown;
    const { code, message } = RametError.from(thrown);
    if (code !== "Forbidden") return { unknown: message };
    return { unknown: `you are not allowed to read ${what}`, refused: what };
  }
}

/** Like `Promise.all`, for promises by name. */
export async function allOf<T extends object>(promises: {
  [K in keyof T]: Promise<T[K]>;
}): Promise<T> {
  const entries = Object.entries<Promise<unknown>>(promises).map(async ([name, value]) => [name, await value] as const);
  return Object.fromEntries(await Promise.all(entries)) as T;
}

/** The numbers of a version such as `v1.36.3-gke.100`, `2.1.4` or `1.7.27~ds1`. Empty if there are none. */
export function readVersion(text: string): number[] {
  const [, numbers = ""] = /^v?(\d+(?:\.\d+)*)/.exec(text) ?? [];
  return numbers === "" ? [] : numbers.split(".").map(Number);
}

/** Whether a version is the minimum or a later one. An unreadable version is not. */
export function isAtLeast(text: string, minimum: string): boolean {
  const found = readVersion(text);
  if (found.length === 0) return false;
  for (const [at, needed] of readVersion(minimum).entries()) {
    const number = found[at] ?? 0;
    if (number !== needed) return number > needed;
  }
  return true;
}
