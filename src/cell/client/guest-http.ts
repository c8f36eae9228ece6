import { once } from "node:events";
import { type ClientRequest, request as httpRequest, type IncomingMessage } from "node:http";
import type { Duplex, Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import * as z from "zod";
import { jsonValue } from "../../base/canonical-json.ts";
import { type Clock, systemClock } from "../../base/clock.ts";
import { defined } from "../../base/defined.ts";
import type { ErrorCode } from "../../base/error-codes.ts";
import { RametError } from "../../base/errors.ts";
import { readAnswer } from "../../base/http.ts";
import { visible } from "../../base/visible.ts";

/**
 * Opens a raw stream to a port of the guest: through link's socket in the cell, with `CellClient.dial` elsewhere. It may take
 * seconds if the guest is silent, so it should stop when `signal`, that of the call, aborts.
 */
export type GuestDial = (signal?: AbortSignal) => Promise<Duplex>;

export interface GuestCall {
  method: "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE" | "OPTIONS";
  path: string;
  headers?: Record<string, string>;
  body?: Buffer | Readable;
  signal?: AbortSignal | undefined;
  /** The time limit for the start of the response. @default none but the caller's signal */
  responseMilliseconds?: number;
}

/** Limits of what is read from a guest, in bytes: root in the sandbox can replace the guest by a program that never stops. */
export const guestLimits = { control: 1 << 20, list: 16 << 20, error: 64 << 10 };

/** A text of a guest for people, which logs and statuses can hold: a condition has at most 32 KiB. */
export const GuestText = z.string().transform((text) => visible(text.slice(0, 4_096).toWellFormed()));

/** An exit code as a shell has it. -1: a signal killed the command. */
export const ExitCode = z
  .number()
  .int()
  .transform((code) => Math.min(Math.max(code, -1), 255));

/**
 * Makes one HTTP call to the guest on a new connection, because a checkpoint ends all connections. The response may have any
 * status.
 *
 * @throws RametError `GuestUnreachable` or `Timeout` (retryable), or `Canceled`
 */
export async function callGuest(
  dial: GuestDial,
  call: GuestCall,
  clock: Clock = systemClock,
): Promise<IncomingMessage> {
  const { method, path, body, signal, responseMilliseconds } = call;
  let cancel: (() => void) | undefined;
  try {
    signal?.throwIfAborted();
    const connection = await dial(signal);
    const request = httpRequest({
      createConnection: () => connection,
      method,
      path,
      headers: {
        host: "guest",
        ...call.headers,
        ...(body === undefined && method === "POST" ? { "content-length": "0" } : {}),
        ...(Buffer.isBuffer(body) ? { "content-length": `${body.length}` } : {}),
      },
      ...defined({ signal }),
    });
    // A connection that is reset during the response fails both request and response. The response reports it.
    request.on("error", () => undefined);
    rejectUpgrade(request);
    if (responseMilliseconds !== undefined) {
      cancel = clock.schedule(responseMilliseconds, () => {
        const message = `the call to the guest (${path}) timed out after ${responseMilliseconds / 1000} s`;
        request.destroy(new RametError("Timeout", message, { retryable: true }));
      });
    }
    const answered = once(request, "response") as Promise<[IncomingMessage]>;
    if (body === undefined || Buffer.isBuffer(body)) request.end(body);
    // A guest that rejects an upload responds before it has read all of it. The response counts, not the broken pipe.
    else pipeline(body, request).catch(() => undefined);
    const [response] = await answered;
    return response;
  } catch (error) {
    throw unreachable(path, error, signal);
  } finally {
    cancel?.();
  }
}

/** Fails a request whose response is an upgrade, which nobody requested. Node would report neither a response nor an error. */
export function rejectUpgrade(request: ClientRequest): void {
  request.once("upgrade", (_, socket) => {
    socket.destroy();
    request.emit("error", new Error("it responded with an upgrade that was not requested"));
  });
}

/**
 * Reads the whole response as text.
 * @throws RametError `GuestUnreachable` if the connection is lost, `Internal` if the response is too large, `Timeout`
 */
export async function textOf(
  response: IncomingMessage,
  limitBytes: number,
  clock: Clock = systemClock,
): Promise<string> {
  try {
    return await readAnswer(response, { what: "the guest's answer", limitBytes, clock });
  } catch (error) {
    throw unreachable("reading the response", error);
  }
}

/** Enough for everything but lists of files and commands. */
const mostValuesOfAnswer = 20_000;

/**
 * Parses JSON of a process that may be hostile: a value of two characters takes up to a kilobyte when a schema rejects it.
 * @throws RametError `Internal` if it has too many values; SyntaxError
 */
export function boundedJson(text: string, what: string, mostValues = mostValuesOfAnswer): unknown {
  if (text.length > 2 * mostValues && valuesIn(text) > mostValues)
    throw new RametError("Internal", `${what} is not valid: it has more than ${mostValues} values`);
  return JSON.parse(text);
}

/** Counts what begins a value outside of strings. */
function valuesIn(text: string): number {
  let count = 0;
  let isString = false;
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === '"') isString = !isString;
    else if (isString) at += character === "\\" ? 1 : 0;
    else if (character === "," || character === "[" || character === "{") count++;
  }
  return count;
}

/** Parses a response. @throws RametError `Internal` if it is not what the schema says, or has more than `mostValues` */
export function parsedAnswer<T extends z.ZodType>(
  schema: T,
  text: string,
  what: string,
  mostValues?: number,
): z.infer<T> {
  try {
    return schema.parse(boundedJson(text, what, mostValues));
  } catch (error) {
    if (error instanceof RametError) throw error;
    const why = error instanceof z.ZodError ? z.prettifyError(error) : "it is not JSON";
    throw new RametError("Internal", `${what} is not valid: ${why.slice(0, 300)}`);
  }
}

/** Converts a connection error into a RametError. */
export function unreachable(what: string, error: unknown, signal?: AbortSignal): RametError {
  if (signal?.aborted === true) {
    return new RametError("Canceled", `the call to the guest (${what}) was aborted`, { cause: error });
  }
  if (error instanceof RametError) return error;
  const why = error instanceof Error ? error.message : String(error);
  return new RametError("GuestUnreachable", `cannot reach the guest (${what}): ${why}`, {
    retryable: true,
    cause: error,
    hint: "Connect again: a checkpoint or a restore ends all connections",
  });
}

/** An error of the guest: a Connect code, an HTTP status, or an error code of Ramet. */
const GuestFailure = z.object({
  code: z.union([z.string(), z.number()]).optional(),
  message: GuestText.default(""),
  details: z.array(z.object({ type: z.string() })).default([]),
});

/** Converts an error response of the guest into a RametError. `what` names the operation. */
export function guestError(what: string, status: number, body: string): RametError {
  return guestFailure(what, jsonValue(body) ?? { message: body.slice(0, 200) }, status);
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
  // The codes of a gateway between the client and the guest.
  ["502", "GuestUnreachable"],
  ["503", "Unavailable"],
  ["504", "Timeout"],
]);
