import type { Condition } from "../api/schema/metadata.ts";
import { type ErrorCode, isErrorCode } from "../base/error-codes.ts";
import { RametError } from "../base/errors.ts";

/** The fields of a status that describe the object's state. */
export interface Reported {
  status?:
    { phase?: string | undefined; message?: string | undefined; conditions?: Condition[] | undefined } | undefined;
}

/** The phase, and the problem if there is one: `Pending: the template x does not exist`. */
export function describeState(object: Reported | undefined): string {
  if (object === undefined) return "deleted";
  const phase = object.status?.phase ?? "waiting for the controller";
  const why = messageOf(object)?.replace(codeAtEnd, "");
  return why === undefined ? phase : `${phase}: ${why}`;
}

/** The status's message, else that of the condition that reports the problem. */
export function messageOf({ status }: Reported): string | undefined {
  const wrong = status?.conditions?.filter((condition) => condition.status === "False") ?? [];
  const failed = status?.phase === "Failed" ? wrong[0] : undefined;
  const found = status?.message ?? wrong.find(({ type }) => type === "Ready")?.message ?? failed?.message;
  return found === "" ? undefined : found;
}

/**
 * The error for an object that failed, with the code that the controller wrote as a condition's reason or at the end of the
 * message.
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

/** A message without the code that `RametError.describe()` puts at its end, where the code is printed separately. */
export function withoutCode(message: string): string {
  return message.replace(codeAtEnd, "");
}

/** The end of `RametError.describe()`. */
const codeAtEnd = / \[([A-Z]\w+)\]$/;
