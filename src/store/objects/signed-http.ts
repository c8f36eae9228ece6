import { once } from "node:events";
import { type ClientRequest, type IncomingMessage, request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import type { Grant, SignedRequest } from "../../api/wire/grant.ts";
import { type Clock, backoffMilliseconds, delay } from "../../base/clock.ts";
import { defined } from "../../base/defined.ts";
import { RametError, errnoOf, isFulfilled } from "../../base/errors.ts";
import { readBody } from "../../base/http.ts";
import { within } from "../../base/within.ts";
import { invalidGrant } from "../checkpoint-id.ts";
import { guarded, scratchHint } from "../store-error.ts";
import { type Refusal, describeRefusal, kindOfRefusal, refusalError } from "./refusal.ts";

// Text of S3, and of the clouds with the same XML, is parsed only here: the code of an error response to a cell.

/** Without a byte for this long, the server or the network has failed. */
const idleMilliseconds = 60_000;
export const requestMilliseconds = 600_000;
const continueMilliseconds = 1_000;
/** Each delay is random within ±50 %, so that many cells refused at the same time do not retry together. */
const backoff = { baseMilliseconds: 300, maxMilliseconds: 60_000, jitter: 2 / 3 };
const maximumTries = 5;

/** A failed signed request. */
export class Refused extends Error {
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(describeRefusal(refusal), { cause: refusal.cause });
    this.refusal = refusal;
  }
}

export interface CallContext {
  clock: Clock;
  signal?: AbortSignal | undefined;
}

export interface SignedCall extends CallContext {
  method: "GET" | "PUT";
  /** Headers that are not signed. */
  headers?: Record<string, string>;
  body?: Buffer;
  /** Opens a large body for each try. Its length is in `headers`. */
  upload?: () => Readable;
}

export interface SignedResponse {
  /** `absent`: the object or the range does not exist. `exists`: the object exists but must not. */
  outcome: "done" | "absent" | "exists";
  body: Buffer;
  /** If greater than 1, an earlier try may have succeeded without a response. */
  tries: number;
}

/**
 * Sends a signed request. Retries transient refusals and broken connections.
 * @param maximumBytes the maximum size of the response body
 * @throws Refused; the reason of `signal` when it aborts
 */
export async function callSigned(request: SignedRequest, call: SignedCall, maximumBytes = 0): Promise<SignedResponse> {
  for (let tries = 1; ; tries += 1) {
    call.signal?.throwIfAborted();
    try {
      return { outcome: "done", body: await callOnce(request, call, maximumBytes), tries };
    } catch (error) {
      call.signal?.throwIfAborted();
      const refused = error instanceof Refused ? error : new Refused({ cause: error });
      const kind = kindOfRefusal(refused.refusal);
      if (kind === "absent" || kind === "exists") return { outcome: kind, body: Buffer.alloc(0), tries };
      if (kind !== "transient" || tries === maximumTries) throw refused;
    }
    const pause = delay(call.clock, backoffMilliseconds(backoff, tries - 1, Math.random), call.signal);
    // An aborted delay ends the call at the start of the next try.
    await pause.catch(() => undefined);
  }
}

function callOnce(signed: SignedRequest, call: SignedCall, maximumBytes: number): Promise<Buffer> {
  const { clock, signal } = call;
  const deadline = { clock, milliseconds: requestMilliseconds, what: "the request", signal };
  return within(deadline, (signal) => send(signed, { ...call, signal }, maximumBytes));
}

async function send({ url, headers }: SignedRequest, call: SignedCall, maximumBytes: number): Promise<Buffer> {
  const { clock, method, signal } = call;
  const makeRequest = url.startsWith("https:") ? httpsRequest : httpRequest;
  const request = makeRequest(url, { method, headers: { ...headers, ...call.headers }, ...defined({ signal }) });
  request.setTimeout(idleMilliseconds, () =>
    request.destroy(new Error(`received nothing for ${idleMilliseconds / 1000} s`)),
  );
  // A connection reset during the response raises the error on both objects. The response reports it.
  request.on("error", () => undefined);
  const responded = once(request, "response") as Promise<[IncomingMessage]>;
  if (call.upload === undefined) request.end(call.body);
  else await startUpload(request, responded, { upload: call.upload, clock });
  const [response] = await responded;
  const { statusCode: status = 0 } = response;
  if (status >= 200 && status < 300) return readBody(response, maximumBytes, "the response");
  const text = (await readBody(response, refusalBytes, "the response")).toString("utf8");
  // Stops a pending upload.
  request.destroy();
  throw new Refused({ status, word: /<Code>([A-Za-z0-9]{1,64})<\/Code>/.exec(text)?.[1] });
}

/**
 * Sends a large body after the store has responded with `100 Continue`, or has not responded for a while. A store that rejects
 * the upload does so before gigabytes are sent, and its response is not lost when it closes the connection.
 */
async function startUpload(
  request: ClientRequest,
  responded: Promise<unknown>,
  { upload, clock }: { upload: () => Readable; clock: Clock },
): Promise<void> {
  const done = new AbortController();
  const silent = isFulfilled(delay(clock, continueMilliseconds, done.signal));
  request.flushHeaders();
  const accepted = once(request, "continue").then(() => true);
  try {
    if (await Promise.race([accepted, silent, responded.then(() => false)])) {
      pipeline(upload(), request).catch(() => undefined);
    }
  } finally {
    done.abort();
  }
}

/** Enough for an error response, which can contain the headers and the string to sign. */
const refusalBytes = 64 << 10;

/** Runs an operation of a cell and converts its errors. No error or cause contains a signed URL. */
export function inCell<T>(what: string, grant: Grant, operation: () => Promise<T>): Promise<T> {
  return guarded(what, () =>
    operation().catch((error: unknown) => {
      if (error instanceof Refused) {
        throw kindOfRefusal(error.refusal) === "denied"
          ? invalidGrant(grant, describeRefusal(error.refusal))
          : refusalError(what, error.refusal);
      }
      throw localError(what, error);
    }),
  );
}

/** Lack of space in the cell's directory is not lack of space in the store. */
function localError(what: string, error: unknown): unknown {
  if (!["ENOSPC", "EDQUOT"].includes(errnoOf(error) ?? "")) return error;
  return new RametError("StoreFull", `${what} failed: the cell's directory has no space left`, {
    hint: scratchHint,
    cause: error,
  });
}
