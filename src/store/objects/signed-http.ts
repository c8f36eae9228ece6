import { once } from "node:events";
import { type ClientRequest, request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Grant, SignedRequest } from "../../api/cell/grant.ts";
import { backoffMilliseconds } from "../../base/backoff.ts";
import { type Clock, delay } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { readBody } from "../../base/read-body.ts";
import { within } from "../../base/within.ts";
import { refused } from "../grant-check.ts";
import { errnoOf, guarded, scratchHint } from "../store-error.ts";
import { kindOfRefusal, type Refusal, refusalError, sayRefusal } from "./refusal.ts";

/** No byte for that long: the other side, or the way to it, is gone. */
const idleMilliseconds = 60_000;
/** The longest that one request may take, however it crawls. */
export const requestMilliseconds = 600_000;
const continueMilliseconds = 1_000;
/** Each delay is random within ±50 %, so that many cells refused at the same time do not retry together. */
const backoff = { baseMilliseconds: 300, maxMilliseconds: 60_000, jitter: 2 / 3 };
const mostTries = 5;

/** What the store has answered to a signed request, other than that it is done. */
export class Refused extends Error {
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(sayRefusal(refusal), { cause: refusal.cause });
    this.refusal = refusal;
  }
}

export interface CallContext {
  clock: Clock;
  signal?: AbortSignal | undefined;
}

export interface SignedCall extends CallContext {
  method: "GET" | "PUT";
  /** Beside those that are signed. */
  headers?: Record<string, string>;
  body?: Buffer;
  /** A large body, of the length that `headers` say, from its beginning at each try. */
  upload?: () => Readable;
}

export interface SignedAnswer {
  /** `absent`: there is no such object, or no such part of it. `exists`: there is one, where the request must find none. */
  outcome: "done" | "absent" | "exists";
  body: Buffer;
  /** From the second on, an earlier one may have been done without a word. */
  tries: number;
}

/**
 * Makes a signed request. A refusal that passes, and a connection that breaks, are tried again.
 * @param mostBytes of the answer's body
 * @throws Refused; the signal's reason
 */
export async function callSigned(request: SignedRequest, call: SignedCall, mostBytes = 0): Promise<SignedAnswer> {
  for (let tries = 1; ; tries += 1) {
    call.signal?.throwIfAborted();
    try {
      return { outcome: "done", body: await callOnce(request, call, mostBytes), tries };
    } catch (error) {
      call.signal?.throwIfAborted();
      const refused = error instanceof Refused ? error : new Refused({ cause: error });
      const kind = kindOfRefusal(refused.refusal);
      if (kind === "absent" || kind === "exists") return { outcome: kind, body: Buffer.alloc(0), tries };
      if (kind !== "passing" || tries === mostTries) throw refused;
    }
    const pause = delay(call.clock, backoffMilliseconds(backoff, tries - 1, Math.random), call.signal);
    // An aborted delay ends the call at the start of the next try.
    await pause.catch(() => undefined);
  }
}

function callOnce(signed: SignedRequest, call: SignedCall, mostBytes: number): Promise<Buffer> {
  const { clock, signal } = call;
  const deadline = { clock, milliseconds: requestMilliseconds, what: "the request", signal };
  return within(deadline, (signal) => send(signed, { ...call, signal }, mostBytes));
}

async function send({ url, headers }: SignedRequest, call: SignedCall, mostBytes: number): Promise<Buffer> {
  const { clock, method, signal } = call;
  const makeRequest = url.startsWith("https:") ? httpsRequest : httpRequest;
  const request = makeRequest(url, { method, headers: { ...headers, ...call.headers }, ...(signal && { signal }) });
  request.setTimeout(idleMilliseconds, () => request.destroy(new Error(`no byte in ${idleMilliseconds / 1000} s`)));
  // A connection that is reset after the answer began tells the request as well as the answer; only the latter counts.
  request.on("error", () => undefined);
  const answered = once(request, "response") as Promise<[IncomingMessage]>;
  if (call.upload === undefined) request.end(call.body);
  else await startUpload(request, answered, { upload: call.upload, clock });
  const [response] = await answered;
  const { statusCode: status = 0 } = response;
  if (status >= 200 && status < 300) return readBody(response, mostBytes, "the response");
  const text = (await readBody(response, refusalBytes, "the response")).toString("utf8");
  // What is left of an upload is not sent.
  request.destroy();
  throw new Refused({ status, word: /<Code>([A-Za-z0-9]{1,64})<\/Code>/.exec(text)?.[1] });
}

/**
 * Sends a large body when the store says that it wants it (`Expect: 100-continue`), or says nothing for a while: one that
 * refuses says so before gigabytes are sent, and its answer is not lost with the connection that it then breaks.
 */
async function startUpload(
  request: ClientRequest,
  answered: Promise<unknown>,
  { upload, clock }: { upload: () => Readable; clock: Clock },
): Promise<void> {
  const decided = new AbortController();
  const silent = delay(clock, continueMilliseconds, decided.signal).then(
    () => true,
    () => false,
  );
  request.flushHeaders();
  const wanted = once(request, "continue").then(() => true);
  try {
    if (await Promise.race([wanted, silent, answered.then(() => false)])) {
      pipeline(upload(), request).catch(() => undefined);
    }
  } finally {
    decided.abort();
  }
}

/** Enough for what a store says about a refusal, its headers and the string that it would have signed included. */
const refusalBytes = 64 << 10;

/** What `operation` gives; what it fails with, as a cell says it. Signed URLs stand in no error, nor in what caused it. */
export function inCell<T>(what: string, grant: Grant, operation: () => Promise<T>): Promise<T> {
  return guarded(what, () =>
    operation().catch((error: unknown) => {
      if (error instanceof Refused) {
        throw kindOfRefusal(error.refusal) === "denied"
          ? refused(grant, sayRefusal(error.refusal))
          : refusalError(what, error.refusal);
      }
      throw localError(what, error);
    }),
  );
}

/** Files lie in the cell's own folder on their way: its room is not the store's. */
function localError(what: string, error: unknown): unknown {
  if (!["ENOSPC", "EDQUOT"].includes(errnoOf(error) ?? "")) return error;
  return new RametError("StoreFull", `${what} failed: the cell's own folder has no room left`, {
    hint: scratchHint,
    cause: error,
  });
}
