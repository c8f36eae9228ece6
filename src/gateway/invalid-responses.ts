import { errors } from "undici";
import type { Clock } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";
import type { Route } from "./upstreams.ts";

/**
 * The ports of sandboxes whose program sends no valid HTTP. After some invalid responses in a row, the gateway sends no request to
 * that port for a moment: each invalid response costs it a connection.
 */
export class InvalidResponses {
  readonly #clock: Clock;
  readonly #ports = new Map<string, { inARow: number; pausedUntil: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Sends a request to a port. @throws RametError `SandboxUnreachable` while the port is paused, and what `send` throws */
  async watch(route: Route, send: () => Promise<number>): Promise<number> {
    const { sandbox, title, port } = route;
    const key = `${sandbox.metadata.uid}:${port}`;
    if (this.#clock.monotonicMilliseconds() < (this.#ports.get(key)?.pausedUntil ?? 0)) {
      throw new RametError("SandboxUnreachable", `Port ${port} of the ${title} sends invalid HTTP`, {
        hint: `Check what the program on this port responds. The gateway tries again after ${pauseMilliseconds / 1000} s`,
        retryable: true,
      });
    }
    try {
      const status = await send();
      this.#ports.delete(key);
      return status;
    } catch (error) {
      if (isInvalidResponse(error)) this.#count(key);
      throw error;
    }
  }

  #count(key: string): void {
    const inARow = (this.#ports.get(key)?.inARow ?? 0) + 1;
    const pausedUntil = inARow < mostInARow ? 0 : this.#clock.monotonicMilliseconds() + pauseMilliseconds;
    // The newest is the last, so that the oldest can be forgotten.
    this.#ports.delete(key);
    this.#ports.set(key, { inARow, pausedUntil });
    const [oldest = key] = this.#ports.keys();
    if (this.#ports.size > mostPorts) this.#ports.delete(oldest);
  }
}

/** A program under development sends a few. */
const mostInARow = 5;
const pauseMilliseconds = 1_000;
/** A sandbox has many ports, and each can send invalid responses. */
const mostPorts = 1_000;

/** Not a connection that cannot be opened or that breaks: a checkpoint breaks many at a time, and clients leave. */
function isInvalidResponse(error: unknown): boolean {
  const { cause } = RametError.from(error);
  if (cause instanceof errors.HTTPParserError) return true;
  return cause instanceof Error && invalidCodes.test((cause as NodeJS.ErrnoException).code ?? "");
}

/**
 * The codes of Node's parser, and of Node and undici for a status or a header that cannot be sent, for a status below 100
 * (an assertion), and for headers without an end.
 */
const invalidCodes = /^(HPE_|ERR_ASSERTION$|ERR_(HTTP_)?INVALID_|UND_ERR_HEADERS_OVERFLOW$)/;
