import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Clock } from "../base/clock.ts";
import { Slots } from "../base/slots.ts";
import type { OriginReader } from "./client-origin.ts";
import { type GatewayLimits, shedFrom } from "./limits.ts";
import type { GatewayMetrics, Refusal } from "./metrics.ts";

export interface ConnectionOptions {
  limits: GatewayLimits;
  metrics: GatewayMetrics;
  originOf: OriginReader;
}

/** The connections of clients. Each has at most one request in progress: pipelined requests wait for their turn. */
export class ClientConnections {
  readonly #options: ConnectionOptions;
  readonly #perClient: Slots;
  /** For each open connection, the requests that were not answered yet, oldest first. */
  readonly #open = new Map<Duplex, (() => void)[]>();
  #count = 0;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    this.#perClient = new Slots(options.limits.perClient);
  }

  /** @returns why the gateway does not accept the connection, if it does not */
  add(socket: Socket): Refusal | undefined {
    const { limits, originOf } = this.#options;
    const { address, isProxied } = originOf({ socket });
    // A proxy's connections are those of many clients, whose requests are counted.
    const release = isProxied ? () => undefined : this.#perClient.take(address);
    if (release === undefined) return this.#refuse("client");
    if (this.#count >= limits.connections * shedFrom) {
      release();
      return this.#refuse("overload");
    }
    this.#count++;
    this.#follow(socket);
    socket.once("close", () => {
      this.#count--;
      release();
    });
    return undefined;
  }

  /** The same for a connection with TLS, which was counted before its handshake. */
  addSecure(socket: Socket): void {
    this.#follow(socket);
  }

  #follow(socket: Socket): void {
    const waiting: (() => void)[] = [];
    this.#open.set(socket, waiting);
    socket.once("close", () => {
      this.#open.delete(socket);
      // Node never closes the responses that were waiting for the connection.
      waiting.length = 0;
    });
  }

  /** Whether no request on this connection is in progress. */
  isIdle(socket: Duplex): boolean {
    return this.#open.get(socket)?.length === 0;
  }

  /** Calls `run` when the earlier requests on this connection were answered, and never if the connection closes before. */
  whenTurn(socket: Duplex, response: ServerResponse, run: () => void): void {
    const waiting = this.#open.get(socket);
    // The connection was refused, and ends with that response.
    if (waiting === undefined) return;
    if (waiting.length >= mostPipelined) {
      this.#options.metrics.refused("pipelining");
      socket.destroy();
      return;
    }
    waiting.push(run);
    response.once("close", () => {
      waiting.shift();
      waiting[0]?.();
    });
    if (waiting.length === 1) run();
  }

  #refuse(reason: Refusal): Refusal {
    this.#options.metrics.refused(reason);
    return reason;
  }

  closeAll(): void {
    for (const socket of this.#open.keys()) socket.destroy();
  }
}

/** A few bytes of the client become a request object each. Common clients do not pipeline. */
const mostPipelined = 8;

/** The first bytes of every client of HTTP/2 (RFC 9113, 3.4). */
const http2Preface = Buffer.from("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

/** The first byte of every TLS handshake (RFC 8446, 5.1). No HTTP request starts with it. */
const handshake = 0x16;

/** As for the headers of a first request. */
const firstBytesMilliseconds = 20_000;

interface FirstBytesListener {
  http1: () => void;
  http2: () => void;
  /** @default TLS is passed on to `http1`, which rejects it */
  tls?: (() => void) | undefined;
  /** The client has sent too little to tell. */
  timeout: () => void;
}

/** Calls a listener as soon as the first bytes show the client's protocol, and leaves these bytes in the socket. */
export function onFirstBytes(socket: Socket, clock: Clock, listener: FirstBytesListener): void {
  let received = Buffer.alloc(0);
  const done = (call: () => void): void => {
    cancel();
    socket.off("readable", read).off("close", stop).off("error", stop).off("end", end);
    if (received.length > 0) socket.unshift(received);
    call();
  };
  const read = (): void => {
    const bytes = socket.read() as Buffer | null;
    if (bytes === null) return;
    received = Buffer.concat([received, bytes]);
    if (received[0] === handshake && listener.tls !== undefined) {
      done(listener.tls);
      return;
    }
    const compared = Math.min(received.length, http2Preface.length);
    if (!http2Preface.subarray(0, compared).equals(received.subarray(0, compared))) done(listener.http1);
    else if (compared === http2Preface.length) done(listener.http2);
  };
  const stop = (): void => {
    cancel();
    socket.destroy();
  };
  // The parser of HTTP/1.1 answers an incomplete request.
  const end = (): void => {
    if (received.length > 0) done(listener.http1);
    else stop();
  };
  const cancel = clock.schedule(firstBytesMilliseconds, () => {
    done(listener.timeout);
  });
  socket.on("readable", read).once("close", stop).once("error", stop).once("end", end);
}
