import * as z from "zod";
import { EgressReport } from "../../api/wire/cell-api.ts";
import { errorCodes, type ErrorCode } from "../../base/error-codes.ts";
import { RametError } from "../../base/errors.ts";

/** Parses a line of JSON. */
export const JsonLine = z.string().transform((line, context): unknown => {
  try {
    return JSON.parse(line);
  } catch {
    context.addIssue({ code: "custom", message: `not JSON: ${line.slice(0, 200)}` });
    return z.NEVER;
  }
});

/** An error of link. */
export const LinkFault = z.object({ code: z.string(), message: z.string(), hint: z.string().optional() });
export type LinkFault = z.infer<typeof LinkFault>;

/** The events of link's start: its namespaces exist (`made`), the network is ready, or the start has failed. */
export const LinkEvent = z.discriminatedUnion("event", [
  z.object({ event: z.literal("made"), netns: z.string().startsWith("/proc/") }),
  z.object({ event: z.literal("ready") }),
  LinkFault.extend({ event: z.literal("error") }),
]);
export type LinkEvent = z.infer<typeof LinkEvent>;

/** Each later line: the response to a request. */
export const LinkAnswer = z.object({
  id: z.number().int(),
  ok: z.literal(true).optional(),
  report: EgressReport.optional(),
  /** PEM of link's CA, if it has one. */
  certificate: z.string().optional(),
  error: LinkFault.optional(),
});
export type LinkAnswer = z.infer<typeof LinkAnswer>;

/** The first line that link sends on a connection to its socket. */
export const LinkDialAnswer = z.object({ ok: z.literal(true).optional(), error: LinkFault.optional() });
export type LinkDialAnswer = z.infer<typeof LinkDialAnswer>;

export function linkError(fault: LinkFault): RametError {
  const code = isErrorCode(fault.code) ? fault.code : "Internal";
  const retryable = code === "Unavailable" || code === "SandboxNotReady";
  const hint = fault.hint === undefined || fault.hint === "" ? {} : { hint: fault.hint };
  return new RametError(code, fault.message, { retryable, ...hint });
}

function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(errorCodes, code);
}
