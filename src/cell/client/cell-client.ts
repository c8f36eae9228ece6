import { once } from "node:events";
import { type ClientRequest, request as httpRequest, type IncomingMessage, type RequestOptions } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import * as z from "zod";
import {
  type BootRequest,
  cellPort,
  CellState,
  type CheckpointRequest,
  CheckpointResult,
  type CredentialsRequest,
  type EgressRequest,
  type HoldRequest,
  type IdentityRequest,
  type KeysRequest,
  type ReleaseRequest,
  ReleaseResult,
  type RestoreInPlaceCall,
  type RestoreRequest,
  RestoreResult,
} from "../../api/wire/cell-api.ts";
import { type Clock, onAbort, systemClock } from "../../base/clock.ts";
import { defined } from "../../base/defined.ts";
import { type ErrorCode, errorCodes } from "../../base/error-codes.ts";
import { RametError } from "../../base/errors.ts";
import { readAnswer } from "../../base/http.ts";
import { CellAgent, type CellCallOptions, connectToCell } from "./cell-proof.ts";
import { type CellKey, signCellToken } from "./cell-token.ts";
import { boundedJson, GuestText, parsedAnswer, rejectUpgrade } from "./guest-http.ts";

export interface CellAddress {
  /** The Pod's address. */
  ip: string;
  sandboxUid: string;
  /**
   * The public key that the cell must prove to have before it gets anything. Absent: the cell is of a version without proofs.
   */
  cellKey?: string | undefined;
}

export interface CellClientOptions {
  clock?: Clock;
  /** Learns of a process at a cell's address that is not the cell. @default ignored */
  onNotProven?: (cell: CellAddress, error: RametError) => void;
}

const Failure = z.object({
  code: z.string(),
  message: GuestText,
  hint: GuestText.optional(),
  retryable: z.boolean().optional(),
});

interface CellCall {
  operation: string;
  body?: unknown;
  signal?: AbortSignal | undefined;
  /** The time limit for the start of the response. @default none but the caller's signal */
  responseMilliseconds?: number;
  /** Whether it has a connection of its own: on a kept one, nothing shows that the node is silent, or was for a time. */
  isAlone?: boolean;
}

type Operation<Body, Answer> = (cell: CellAddress, body: Body, signal?: AbortSignal) => Promise<Answer>;

/** The limit of calls that do not wait for gVisor, and of reading the rest of any answer. */
const responseMilliseconds = 10_000;
/** Another Pod may have taken the address of a cell, so its answers are not trusted. */
const answerLimitBytes = 1 << 20;
const errorLimitBytes = 64 << 10;

/**
 * A client of all cells, with one connection pool. Every method takes the cell's address. Aborting a signal ends only the call:
 * the cell finishes the operation, and a repeated call joins it.
 *
 * Every method throws RametError `Unavailable` (retryable) if the cell cannot be reached within 2 s, and `Canceled` when the
 * signal is aborted. Methods that do not wait for gVisor throw `Timeout` after 10 s. With a `cellKey` they throw `CellNotProven`
 * if another process has the address; it gets neither the token nor the body.
 */
export class CellClient {
  #key: CellKey;
  readonly #clock: Clock;
  readonly #agent: CellAgent;
  readonly #onNotProven: NonNullable<CellClientOptions["onNotProven"]>;

  constructor(key: CellKey, { clock = systemClock, onNotProven = () => undefined }: CellClientOptions = {}) {
    this.#key = key;
    this.#clock = clock;
    this.#agent = new CellAgent(clock);
    this.#onNotProven = onNotProven;
  }

  /** Signs calls with this key from now on. */
  useKey(key: CellKey): void {
    this.#key = key;
  }

  /** Returns the key of the cell at this address. Trust it only after you have checked that the sandbox's Pod still has it. */
  cellKey(cell: CellAddress, signal?: AbortSignal): Promise<string> {
    return this.#agent.learnKey(cell, signal);
  }

  readonly state = this.#question("state", { responseMilliseconds });
  readonly boot: Operation<BootRequest, CellState> = this.#operation("boot", CellState);
  readonly identity: Operation<IdentityRequest, CellState> = this.#operation("identity", CellState);
  readonly restore: Operation<RestoreRequest, RestoreResult> = this.#operation("restore", RestoreResult);
  readonly restoreInPlace: Operation<RestoreInPlaceCall, RestoreResult> = this.#operation("swap", RestoreResult);
  readonly checkpoint: Operation<CheckpointRequest, CheckpointResult> = this.#operation("checkpoint", CheckpointResult);
  /** Resolves when all of a restored memory is loaded. */
  readonly untilLoaded = this.#question("loaded");
  /** Resolves when the policy is in effect, also for open connections. */
  readonly setEgress: Operation<EgressRequest, CellState> = this.#quickOperation("egress", CellState);
  /** Resolves when the credentials are in effect. */
  readonly setCredentials: Operation<CredentialsRequest, CellState> = this.#quickOperation("credentials", CellState);
  /** Replaces the keys whose tokens the cell accepts. */
  readonly setKeys: Operation<KeysRequest, CellState> = this.#quickOperation("keys", CellState);
  /** Resolves when the sandbox is paused, and what its volumes have is on disk. */
  readonly hold: Operation<HoldRequest, CellState> = this.#operation("hold", CellState);
  readonly release: Operation<ReleaseRequest, ReleaseResult> = this.#quickOperation("release", ReleaseResult);

  /** Resolves when what the volumes of the sandbox have is on disk. */
  sync(cell: CellAddress, signal?: AbortSignal): Promise<CellState> {
    return this.#call(cell, { operation: "sync", body: {}, answer: CellState, signal });
  }

  /** The end of the cell's Pod is intended: the cell does not hold it. */
  intendEnd(cell: CellAddress, signal?: AbortSignal): Promise<CellState> {
    return this.#call(cell, { operation: "end", body: {}, answer: CellState, responseMilliseconds, signal });
  }

  stop(cell: CellAddress, reason: string, signal?: AbortSignal): Promise<CellState> {
    return this.#call(cell, { operation: "stop", body: { reason }, answer: CellState, signal, isAlone: true });
  }

  /** Opens a raw stream to a port inside the sandbox. */
  async dial(cell: CellAddress, port: number, signal?: AbortSignal): Promise<Duplex> {
    const token = await signCellToken(this.#key, { sandboxUid: cell.sandboxUid, operation: "ports" }, this.#clock);
    const socket = await this.#connect(cell, signal);
    const request = httpRequest({
      createConnection: () => socket,
      host: cell.ip,
      port: cellPort,
      path: `/v1/ports/${port}`,
      headers: { authorization: `Bearer ${token}`, connection: "Upgrade", upgrade: "tcp" },
    });
    limitResponse(this.#clock, request, { milliseconds: responseMilliseconds, what: `connecting to port ${port}` });
    const stop = signal && onAbort(signal, () => request.destroy());
    const upgraded = once(request, "upgrade") as Promise<[IncomingMessage, Duplex, Buffer]>;
    const refused = once(request, "response") as Promise<[IncomingMessage]>;
    ignoreLateErrors(request);
    request.end();
    try {
      const [answer, stream, head] = await Promise.race([upgraded, refused]);
      if (stream === undefined) throw await failure(answer, this.#clock);
      // An error ends the stream. Until the caller listens, it must not count as unhandled.
      stream.on("error", () => undefined);
      // The program may have sent its first bytes together with the response.
      stream.unshift(head);
      return stream;
    } catch (error) {
      throw unreachable(cell, error, signal);
    } finally {
      // From here on the stream belongs to the caller.
      stop?.();
    }
  }

  close(): void {
    this.#agent.destroy();
  }

  #connect(cell: CellAddress, signal: AbortSignal | undefined): Promise<Socket> {
    return connectToCell(cell, this.#clock, signal).catch((error: unknown) => {
      throw this.#reported(cell, unreachable(cell, error, signal));
    });
  }

  #question(operation: string, limit: Pick<CellCall, "responseMilliseconds"> = {}) {
    return (cell: CellAddress, signal?: AbortSignal) =>
      this.#call(cell, { operation, answer: CellState, signal, ...limit });
  }

  #operation<T extends z.ZodType>(operation: string, answer: T, limit: Pick<CellCall, "responseMilliseconds"> = {}) {
    return (cell: CellAddress, body: unknown, signal?: AbortSignal) =>
      this.#call(cell, { operation, body, answer, signal, ...limit });
  }

  /** One that does not wait for gVisor. */
  #quickOperation<T extends z.ZodType>(operation: string, answer: T) {
    return this.#operation(operation, answer, { responseMilliseconds });
  }

  async #call<T extends z.ZodType>(cell: CellAddress, call: CellCall & { answer: T }): Promise<z.infer<T>> {
    const response = await this.#send(cell, call);
    try {
      const what = `the answer of the cell at ${cell.ip}`;
      const limits = { what, limitBytes: answerLimitBytes, milliseconds: responseMilliseconds, clock: this.#clock };
      return parsedAnswer(call.answer, await readAnswer(response, limits), what);
    } catch (error) {
      throw unreachable(cell, error, call.signal);
    }
  }

  async #send(cell: CellAddress, call: CellCall): Promise<IncomingMessage> {
    const { operation } = call;
    const body = call.body === undefined ? undefined : JSON.stringify(call.body);
    const token = await signCellToken(this.#key, { sandboxUid: cell.sandboxUid, operation, body }, this.#clock);
    const connection: CellCallOptions = { peer: cell, callSignal: call.signal };
    const socket = call.isAlone === true ? await this.#connect(cell, call.signal) : undefined;
    const options: RequestOptions & CellCallOptions = {
      ...connection,
      ...(socket === undefined ? { agent: this.#agent } : { createConnection: () => socket }),
      method: body === undefined ? "GET" : "POST",
      host: cell.ip,
      port: cellPort,
      path: `/v1/${operation}`,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body === undefined
          ? {}
          : { "content-type": "application/json", "content-length": Buffer.byteLength(body) }),
      },
      ...defined({ signal: call.signal }),
    };
    const request = httpRequest(options);
    if (call.responseMilliseconds !== undefined)
      limitResponse(this.#clock, request, { milliseconds: call.responseMilliseconds, what: operation });
    ignoreLateErrors(request);
    rejectUpgrade(request);
    request.end(body);
    try {
      const [response] = (await once(request, "response")) as [IncomingMessage];
      if (response.statusCode === 200) return response;
      throw await failure(response, this.#clock);
    } catch (error) {
      throw this.#reported(cell, unreachable(cell, error, call.signal));
    }
  }

  #reported(cell: CellAddress, error: RametError): RametError {
    if (error.code === "CellNotProven") this.#onNotProven(cell, error);
    return error;
  }
}

/** A connection may break after the response was read. Relevant errors appear in the response's stream. */
function ignoreLateErrors(request: ClientRequest): void {
  request.on("error", () => undefined);
}

async function failure(response: IncomingMessage, clock: Clock): Promise<RametError> {
  const limits = { what: "the cell's error", limitBytes: errorLimitBytes, milliseconds: responseMilliseconds, clock };
  const { data } = Failure.safeParse(boundedJson((await readAnswer(response, limits)) || "{}", limits.what));
  const why = `the cell responded with status ${response.statusCode ?? 0}`;
  if (data === undefined) return new RametError("Unavailable", why, { retryable: true });
  const { code, message, hint, retryable } = data;
  const known: ErrorCode = Object.hasOwn(errorCodes, code) ? (code as ErrorCode) : "Internal";
  return new RametError(known, message, { retryable, hint });
}

function unreachable(cell: CellAddress, error: unknown, signal: AbortSignal | undefined): RametError {
  if (error instanceof RametError) return error;
  if (signal?.aborted === true) {
    return new RametError("Canceled", `the call to the cell at ${cell.ip} was aborted by the caller`, { cause: error });
  }
  return new RametError("Unavailable", `cannot reach the cell at ${cell.ip}: ${RametError.from(error).message}`, {
    retryable: true,
    cause: error,
  });
}

/** Fails a request with `Timeout` if its response has not started in time. */
function limitResponse(
  clock: Clock,
  request: ClientRequest,
  { milliseconds, what }: { milliseconds: number; what: string },
): void {
  const done = clock.schedule(milliseconds, () => {
    request.destroy(
      new RametError("Timeout", `${what} timed out: the cell did not respond within ${milliseconds / 1000} s`, {
        retryable: true,
        hint: "Check the sandbox's Pod with kubectl get pod and kubectl logs",
      }),
    );
  });
  request.once("close", done).once("response", done).once("upgrade", done);
}
