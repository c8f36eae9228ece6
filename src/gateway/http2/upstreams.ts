import { type ClientHttp2Session, type ClientHttp2Stream, connect, type OutgoingHttpHeaders } from "node:http2";
import { type Clock, systemClock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import type { Route, Upstreams } from "../upstreams.ts";

/** The connections to programs in sandboxes that speak HTTP/2 without TLS. Their streams are shared by all clients. */
export class Http2Upstreams {
  readonly #upstreams: Pick<Upstreams, "dial">;
  readonly #clock: Clock;
  /** For each sandbox port, the connections that accept further streams. */
  readonly #open = new Map<string, Set<Pooled>>();
  /** The connections that are being opened. All requests that arrive meanwhile wait for one. */
  readonly #opening = new Map<string, Promise<Pooled>>();

  constructor(upstreams: Pick<Upstreams, "dial">, clock: Clock = systemClock) {
    this.#upstreams = upstreams;
    this.#clock = clock;
  }

  /** Starts a request. @throws RametError `SandboxUnreachable`, `Timeout` */
  async request(route: Route, headers: OutgoingHttpHeaders, endStream: boolean): Promise<ClientHttp2Stream> {
    const { metadata, ip, cellKey } = route.sandbox;
    // A connection to an earlier Pod can seem open for long, if its node is silent.
    const key = `${metadata.uid}:${route.port}:${ip}:${cellKey}`;
    for (let dead = 0; dead < mostDead;) {
      const pooled = this.#free(key) ?? (await this.#opened(key, route));
      if (pooled.isDead) dead++;
      // Other requests that waited for the same connection can have used all of its streams.
      else if (pooled.hasRoom) return pooled.request(headers, endStream);
    }
    throw notHttp2(route, undefined);
  }

  close(): void {
    for (const pool of this.#open.values()) for (const pooled of pool) pooled.destroy();
  }

  #free(key: string): Pooled | undefined {
    for (const pooled of this.#open.get(key) ?? []) if (pooled.hasRoom) return pooled;
    return undefined;
  }

  #opened(key: string, route: Route): Promise<Pooled> {
    const before = this.#opening.get(key);
    if (before !== undefined) return before;
    const opening = this.#connect(key, route).finally(() => this.#opening.delete(key));
    this.#opening.set(key, opening);
    return opening;
  }

  async #connect(key: string, route: Route): Promise<Pooled> {
    const socket = await this.#upstreams.dial(route, { alpn: ["h2"] });
    socket.allowHalfOpen = false;
    const session = connect("http://sandbox", { createConnection: () => socket, ...limits });
    const pooled = new Pooled(session, this.#clock);
    await this.#untilSettings(session, route);
    if (pooled.isDead) return pooled;
    const pool = this.#open.get(key) ?? new Set();
    this.#open.set(key, pool.add(pooled));
    const drop = (): void => {
      pool.delete(pooled);
      if (pool.size === 0 && this.#open.get(key) === pool) this.#open.delete(key);
    };
    session.once("goaway", drop).once("close", drop);
    return pooled;
  }

  /** The settings of a server are its first frame: without them, it does not speak HTTP/2. */
  async #untilSettings(session: ClientHttp2Session, route: Route): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    let failed: unknown;
    session
      .once("remoteSettings", resolve)
      .on("error", (error) => {
        failed = error;
      })
      .once("close", () => {
        reject(notHttp2(route, failed));
      });
    const cancel = this.#clock.schedule(settingsMilliseconds, () => {
      reject(notHttp2(route, new RametError("Timeout", `it sent nothing for ${settingsMilliseconds / 1000} s`)));
      session.destroy();
    });
    try {
      await promise;
    } finally {
      cancel();
    }
  }
}

/** A program that ends each connection must not make the gateway open any number of them. */
const mostDead = 2;
const settingsMilliseconds = 10_000;
const idleMilliseconds = 60_000;

/** The sandbox is not trusted: it can push nothing, and each connection buffers little of what it sends. */
const limits = {
  settings: { enablePush: false, initialWindowSize: 128 * 1024, maxHeaderListSize: 16 * 1024 },
  maxReservedRemoteStreams: 0,
  // In megabytes. All clients of a port share it, and slow ones must not use it up: the default is 10.
  maxSessionMemory: 200,
  maxSessionInvalidFrames: 10,
  maxSessionRejectedStreams: 10,
};

/** A connection and the number of its streams. It closes when it has had none for a while. */
class Pooled {
  readonly #session: ClientHttp2Session;
  readonly #clock: Clock;
  readonly #streams = new Set<ClientHttp2Stream>();
  #hasLeft = false;
  #stopWaiting: () => void = () => undefined;

  constructor(session: ClientHttp2Session, clock: Clock) {
    this.#session = session;
    this.#clock = clock;
    this.#closeWhenIdle();
    session
      .once("goaway", () => (this.#hasLeft = true))
      .once("close", () => {
        this.#stopWaiting();
        // Node does not close a stream in the middle of its response when the program disconnects.
        for (const stream of this.#streams) stream.destroy();
      });
  }

  get isDead(): boolean {
    return this.#session.closed || this.#session.destroyed || this.#hasLeft;
  }

  /** A program that allows no streams at all fails its requests, instead of any number of connections being opened. */
  get hasRoom(): boolean {
    const { maxConcurrentStreams = Infinity } = this.#session.remoteSettings;
    return !this.isDead && this.#streams.size < Math.max(1, maxConcurrentStreams);
  }

  request(headers: OutgoingHttpHeaders, endStream: boolean): ClientHttp2Stream {
    const stream = this.#session.request(headers, { endStream });
    this.#streams.add(stream);
    this.#stopWaiting();
    stream.once("close", () => {
      this.#streams.delete(stream);
      if (this.#streams.size === 0) this.#closeWhenIdle();
    });
    return stream;
  }

  destroy(): void {
    this.#session.destroy();
  }

  #closeWhenIdle(): void {
    this.#stopWaiting = this.#clock.schedule(idleMilliseconds, () => {
      this.#session.close();
    });
  }
}

function notHttp2({ title, port }: Route, cause: unknown): RametError {
  const why = cause instanceof Error ? cause.message : "it closed the connection";
  return new RametError(
    "SandboxUnreachable",
    `The program at port ${port} of the ${title} does not speak HTTP/2: ${why}`,
    { cause, retryable: true, hint: "Check that the program serves gRPC or HTTP/2 without TLS on this port" },
  );
}
