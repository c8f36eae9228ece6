import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { OriginReader } from "./client-origin.ts";
import { Slots } from "../base/slots.ts";
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
