import * as z from "zod";
import type { ErrorCode } from "../../base/error-codes.ts";
import { RametError } from "../../base/errors.ts";

/** A failure as the guest tells it: Connect's words, an HTTP status, or a code of ours. */
const GuestFailure = z.object({
  code: z.union([z.string(), z.number()]).optional(),
  message: z.string().default(""),
  details: z.array(z.object({ type: z.string() })).default([]),
});

/** The guest's answer to a call that failed, as an error of ours. `what` says what was tried. */
export function guestError(what: string, status: number, body: string): RametError {
  return guestFailure(what, parsed(body), status);
}

/** The same for an error that was read already, as at the end of a stream. */
export function guestFailure(what: string, body: unknown, status = 0): RametError {
  const { code, message, details } = GuestFailure.catch({ message: "", details: [] }).parse(body);
  // Envd calls it unauthenticated, and E2B's clients expect that; the token was right.
  if (details.some(({ type }) => type === "ramet.dev.v1.UnknownUser")) return unknownUser(what, message);
  const known = codes.get(String(code)) ?? codes.get(String(status)) ?? "Internal";
  const why = message === "" ? `the guest answered ${code ?? status}` : message;
  return new RametError(known, `${what} failed: ${why}`);
}

function unknownUser(what: string, message: string): RametError {
  return new RametError("InvalidArgument", `${what} failed: ${message}`, {
    hint: "Name a user that the sandbox's image has, or a number",
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
