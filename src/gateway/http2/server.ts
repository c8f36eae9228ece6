import {
  constants,
  createServer,
  type Http2Server,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { Socket } from "node:net";
import type { Clock } from "../../base/clock.ts";
import { Rates } from "../../base/slots.ts";
import type { GatewayMetrics } from "../metrics.ts";
import type { Http2Request } from "./forward.ts";

export interface Http2ServerOptions {
  metrics: GatewayMetrics;
  clock: Clock;
  onRequest: (request: Http2Request, session: ServerHttp2Session) => void;
}

/** Serves HTTP/2 on connections that another server has accepted. */
export class Http2Clients {
  readonly #server: Http2Server;
  readonly #sessions = new Set<ServerHttp2Session>();
  readonly #options: Http2ServerOptions;
  #isClosing = false;

  constructor(options: Http2ServerOptions) {
    this.#options = options;
    this.#server = createServer(protocolLimits).on("session", (session) => {
      this.#follow(session);
    });
  }

  /** Takes a connection over. The bytes that it has sent must be in its buffer again. */
  accept(socket: Socket): void {
    // Unlike with HTTP/1.1, a client that has ended its side has left.
    socket.allowHalfOpen = false;
    this.#server.emit("connection", socket);
  }

  /** Accepts no further requests. Each connection closes when its requests were answered. */
  close(): void {
    this.#isClosing = true;
    for (const session of this.#sessions) session.close();
  }

  #follow(session: ServerHttp2Session): void {
    const { clock, metrics, onRequest } = this.#options;
    const acceptReset = resetLimit(clock);
    const streams = new Set<ServerHttp2Stream>();
    let hasAsked = false;
    const endWhenIdle = (milliseconds: number): (() => void) =>
      clock.schedule(milliseconds, () => {
        if (!hasAsked) metrics.refused("timeout");
        session.close();
        // The client may ignore that, and a block of headers that never ends would keep the connection.
        stopWaiting = clock.schedule(goodbyeMilliseconds, () => {
          session.destroy();
        });
      });
    let stopWaiting = endWhenIdle(firstRequestMilliseconds);
    this.#sessions.add(session);
    session
      .once("close", () => {
        this.#sessions.delete(session);
        stopWaiting();
        // Node does not close a stream in the middle of its response when the client disconnects.
        for (const stream of streams) stream.destroy();
      })
      // Also the listener without which an error would end the process.
      .on("error", () => {
        metrics.refused("invalidRequest");
      })
      .on("stream", (stream: ServerHttp2Stream, headers: IncomingHttpHeaders, _: number, rawHeaders: string[]) => {
        stream.on("error", () => undefined);
        streams.add(stream);
        hasAsked = true;
        stopWaiting();
        const ended = (): void => {
          guarded(session, () => {
            streams.delete(stream);
            if (streams.size === 0 && !session.destroyed) stopWaiting = endWhenIdle(idleMilliseconds);
            if (session.destroyed || !isResetByClient(stream) || acceptReset()) return;
            metrics.refused("resets");
            session.destroy(undefined, constants.NGHTTP2_ENHANCE_YOUR_CALM);
          });
        };
        // A client can reset a stream before Node reports it.
        if (stream.destroyed) {
          ended();
          return;
        }
        stream.once("close", ended);
        onRequest({ stream, headers, rawHeaders }, session);
      });
    if (this.#isClosing) session.close();
  }
}

/** As for HTTP/1.1, from the connection. */
const firstRequestMilliseconds = 20_000;
/** Shorter than for HTTP/1.1, because a client learns in time that the connection ends, and loses no request. */
const idleMilliseconds = 60_000;
const goodbyeMilliseconds = 5_000;

const protocolLimits = {
  settings: {
    maxConcurrentStreams: 100,
    // The limit of Node's parser for HTTP/1.1.
    maxHeaderListSize: 16 * 1024,
    // The limit for the buffered part of a body that a program does not read.
    initialWindowSize: 128 * 1024,
    enableConnectProtocol: false,
  },
  // In megabytes: twice what 100 requests can buffer.
  maxSessionMemory: 25,
  maxSessionRejectedStreams: 100,
  maxSettings: 32,
  maxOutstandingPings: 10,
  // nghttp2's own limit, also for streams that end before Node reports them (CVE-2023-44487).
  streamResetBurst: 500,
  streamResetRate: 50,
};

/** Ends the connection when a listener throws. Otherwise the process would end. */
function guarded(session: ServerHttp2Session, run: () => void): void {
  try {
    run();
  } catch {
    session.destroy();
  }
}

/** The gateway resets a stream with an error only after the sandbox or the client did, or the key of the client was revoked. */
function isResetByClient(stream: ServerHttp2Stream): boolean {
  return stream.aborted && stream.rstCode !== constants.NGHTTP2_NO_ERROR;
}

/** More than clients need that cancel calls, also through a proxy that shares its connection between them. */
const burst = 200;
const perSecond = 20;

/**
 * Limits how often a client resets a request that it has sent: each costs the gateway and the sandbox more than the client.
 * @returns counts a reset, and returns whether the client has reset no more than it may
 */
export function resetLimit(clock: Clock): () => boolean {
  const rates = new Rates(clock);
  return () => rates.take("", perSecond, burst) === 0;
}
