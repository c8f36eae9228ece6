import * as z from "zod";
import type { ErrorCode } from "../../base/error-codes.ts";
import { RametError } from "../../base/errors.ts";

/** An error of the guest: a Connect code, an HTTP status, or an error code of Ramet. */
const GuestFailure = z.object({
  code: z.union([z.string(), z.number()]).optional(),
  message: z.string().default(""),
  details: z.array(z.object({ type: z.string() })).default([]),
});

/** Converts an error response of the guest into a RametError. `what` names the operation. */
export function guestError(what: string, status: number, body: string): RametError {
  return guestFailure(what, parsed(body), status);
}

/** Converts an error that was already parsed, for example at the end of a stream. */
export function guestFailure(what: string, body: unknown, status = 0): RametError {
  const { code, message, details } = GuestFailure.catch({ message: "", details: [] }).parse(body);
  // The guest responds like envd, as E2B's clients expect: "unauthenticated", although the token is valid.
  if (details.some(({ type }) => type === "ramet.dev.v1.UnknownUser")) return unknownUser(what, message);
  const known = codes.get(String(code)) ?? codes.get(String(status)) ?? "Internal";
  const why = message === "" ? `the guest responded with ${code ?? status}` : message;
  return new RametError(known, `${what} failed: ${why}`);
}

function unknownUser(what: string, message: string): RametError {
  return new RametError("InvalidArgument", `${what} failed: ${message}`, {
    hint: "Use the name of a user in the sandbox's image, or a number",
  });
}

const codes = new Map<string, ErrorCode>([
  ["invalid_argument", "InvalidArgument"],
  ["failed_precondition", "Conflict"],
  ["not_found", "NotFound"],
  ["already_exists", "AlreadyExists"],
  ["permission_denied", "Forbidden"],
  ["unauthenticated", "Unauthorized"],
  ["deadline_exceeded", "Timeout"],
  ["canceled", "Canceled"],
  ["InvalidArgument", "InvalidArgument"],
  ["Conflict", "Conflict"],
  ["400", "InvalidArgument"],
  ["401", "Unauthorized"],
  ["403", "Forbidden"],
  ["404", "NotFound"],
  ["409", "Conflict"],
]);

function parsed(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return { message: body.slice(0, 200) };
  }
}
