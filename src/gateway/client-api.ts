import { Agent, errors } from "undici";
import { textOfError, RametError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { Exchange } from "./exchange.ts";
import { forwardTo } from "./forward.ts";
import { Refusal } from "./refusal.ts";

/** The server of the client API, to which the gateway proxies the requests that name no sandbox. */
export class ClientApi {
  readonly #origin: string;
  readonly #log: Log;
  readonly #agent = new Agent({
    connect: { timeout: connectMilliseconds },
    headersTimeout: responseMilliseconds,
    // The server decides how long it streams, for example the log of a build.
    bodyTimeout: 0,
  });

  constructor({ origin }: URL, log: Log) {
    this.#origin = origin;
    this.#log = log;
  }

  /** @returns the status of the response, once all of it was sent @throws RametError as `forward` */
  async proxy(exchange: Exchange): Promise<number> {
    if (exchange.request.headers.upgrade !== undefined) {
      throw new RametError("InvalidArgument", "The client API accepts no protocol upgrades", {
        hint: "Send the request without the header Upgrade; with Java's HttpClient, select Version.HTTP_1_1",
      });
    }
    const target = { dispatcher: this.#agent, origin: this.#origin, failure: (error: unknown) => this.#failure(error) };
    return forwardTo(target, exchange);
  }

  async close(): Promise<void> {
    await this.#agent.destroy();
  }

  /** The client must not see the addresses of the cluster. */
  #failure(error: unknown): RametError {
    const why = textOfError(error);
    this.#log.warn({ error: why }, "the client API did not answer a request");
    const { code = "" } = error as NodeJS.ErrnoException;
    const hasConnected = error instanceof errors.SocketError || error instanceof errors.HTTPParserError;
    if (hasConnected || !unreachable.test(code)) {
      return new Refusal("Unavailable", "The client API sent no valid response", { status: 502, retryable: true });
    }
    return new RametError("Unavailable", "The client API is not reachable", {
      retryable: true,
      hint: "Repeat the request later; if this lasts, check that `ramet client-api` runs at the address of --client-api",
    });
  }
}

const connectMilliseconds = 10_000;
/** Longer than the client API works on any request before it answers. */
const responseMilliseconds = 900_000;
const unreachable = /^(ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|UND_ERR_CONNECT_TIMEOUT)$/;
