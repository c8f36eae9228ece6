import { errorCodes, type ErrorCode } from "../../base/error-codes.ts";
import { RametError } from "../../base/errors.ts";
import type { Condition } from "../../api/schema/metadata.ts";

/** The part of a status that says how an object is. */
export interface Reported {
  status?:
    { phase?: string | undefined; message?: string | undefined; conditions?: Condition[] | undefined } | undefined;
}

/** How a wait ended that was not cut short: the object as it was wanted, or why it cannot get there. */
export type Settled<T> = { object: T } | { failure: RametError };

/** The phase, and why it is that one where something is wrong: `Pending: the template x does not exist`. */
export function describeState(object: Reported | undefined): string {
  if (object === undefined) return "gone";
  const phase = object.status?.phase ?? "not seen by a controller yet";
  const why = messageOf(object)?.replace(codeAtEnd, "");
  return why === undefined ? phase : `${phase}: ${why}`;
}

/** What a person should read: the status' message, else that of the condition that says what is wrong. */
export function messageOf({ status }: Reported): string | undefined {
  const wrong = status?.conditions?.filter((condition) => condition.status === "False") ?? [];
  const failed = status?.phase === "Failed" ? wrong[0] : undefined;
  const found = status?.message ?? wrong.find(({ type }) => type === "Ready")?.message ?? failed?.message;
  return found === "" ? undefined : found;
}

/**
 * The error for an object that ended in a way that was not wanted: with the code that the controller wrote, as a
 * condition's reason or at the end of the message.
 */
export function failureOf(what: string, object: Reported, fallback: ErrorCode): RametError {
  const message = messageOf(object) ?? "it gave no reason";
  const ending = codeAtEnd.exec(message);
  const reasons = (object.status?.conditions ?? [])
    .filter(({ status }) => status === "False")
    .map(({ reason }) => reason);
  const code = [ending?.[1], ...reasons].find(isErrorCode) ?? fallback;
  const why = isErrorCode(ending?.[1]) ? message.slice(0, ending.index) : message;
  return new RametError(code, `${what}: ${why}`);
}

/** As `RametError.describe` ends. */
const codeAtEnd = / \[([A-Z]\w+)\]$/;

function isErrorCode(word: string | undefined): word is ErrorCode {
  return word !== undefined && Object.hasOwn(errorCodes, word);
}
