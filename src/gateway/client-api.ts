import type { Socket } from "node:net";
import { Agent, buildConnector, errors } from "undici";
import * as z from "zod";
import { jsonValue } from "../base/canonical-json.ts";
import { canceled, type Clock } from "../base/clock.ts";
import { textOfError, RametError } from "../base/errors.ts";
import { readBody } from "../base/http.ts";
import type { Log } from "../base/log.ts";
import { resumeProofHeader } from "../cell/client/resume-proof.ts";
import type { Exchange } from "./exchange.ts";
import { type Upgrade, upgradeHint, upgradeTo } from "./forward-upgrade.ts";
import { forwardTo } from "./forward.ts";
import { Refusal } from "./refusal.ts";

/** The server of the client API, to which the gateway proxies the requests that name no sandbox. */
export class ClientApi {
  readonly #origin: string;
  readonly #connector = buildConnector({ timeout: connectMilliseconds, allowH2: false });
  readonly #clock: Clock;
  readonly #log: Log;
  readonly #agent = new Agent({
    connect: { timeout: connectMilliseconds },
    headersTimeout: responseMilliseconds,
    // The server decides how long it streams, for example the log of a build.
    bodyTimeout: 0,
  });

  constructor({ origin }: URL, clock: Clock, log: Log) {
    this.#origin = origin;
    this.#clock = clock;
    this.#log = log;
  }

  /** @returns the status of the response, once all of it was sent @throws RametError as `forward` */
  proxy(exchange: Exchange): Promise<number> {
    const target = { dispatcher: this.#agent, origin: this.#origin, failure: (error: unknown) => this.#failure(error) };
    return forwardTo(target, exchange);
  }

  /** Proxies a WebSocket. @returns the status of the response, once the connection has ended @throws RametError as `upgradeTo` */
  async upgrade(upgrade: Upgrade): Promise<number> {
    if (upgrade.request.headers.upgrade?.toLowerCase() !== "websocket") {
      const what = "The gateway proxies no upgrades other than WebSockets to the client API";
      throw new RametError("InvalidArgument", what, { hint: upgradeHint });
    }
    const failure = (error: unknown): RametError => this.#failure(error);
    const limits = { clock: this.#clock, answerMilliseconds: responseMilliseconds, stallMilliseconds };
    return upgradeTo({ connect: () => this.#connect(), failure, limits }, upgrade);
  }

  #connect(): Promise<Socket> {
    const { protocol, hostname, port } = new URL(this.#origin);
    const { promise, resolve, reject } = Promise.withResolvers<Socket>();
    const at = { protocol, hostname: hostname.replace(/^\[|\]$/g, ""), port };
    this.#connector(at, (error, socket) => {
      if (error === null) resolve(socket);
      else reject(this.#failure(error));
    });
    return promise;
  }

  /**
   * Asks the client API to resume a sandbox for which traffic has arrived.
   * @returns whether it was resumed; false if it runs as far as the client API knows
   * @throws RametError `NotFound`, `Forbidden`, `Conflict`, `Unavailable`; `Canceled` when `signal` aborts
   */
  async resume(uid: string, proof: string, signal: AbortSignal): Promise<boolean> {
    try {
      const answer = await this.#agent.request({
        origin: this.#origin,
        method: "POST",
        path: `/internal/sandboxes/${encodeURIComponent(uid)}/resume`,
        headers: { [resumeProofHeader]: proof },
        signal,
      });
      return readResume(answer.statusCode, await readBody(answer.body, ...answerLimit));
    } catch (error) {
      if (signal.aborted) throw canceled("Resuming the sandbox", signal);
      throw error instanceof RametError ? error : this.#failure(error);
    }
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

/** @throws RametError the client API's error, if it is for the client; otherwise `Unavailable` */
function readResume(status: number, body: Buffer): boolean {
  const answer = ResumeAnswer.safeParse(jsonValue(body.toString()));
  if (answer.data !== undefined && "resumed" in answer.data) return answer.data.resumed;
  const { reason = `it answered ${status}`, message = "", hint } = answer.data ?? {};
  const code = passedOn.find((each) => each === reason);
  if (code !== undefined) throw new RametError(code, message, { hint });
  const why = `The client API did not resume the sandbox: ${message === "" ? reason : message}`;
  throw new RametError("Unavailable", why, { retryable: true });
}

const answerLimit = [64 * 1024, "The answer of the client API", "Unavailable"] as const;
/** The codes that clients get. The others are about the two servers. */
const passedOn = ["NotFound", "Forbidden", "Conflict"] as const;

const ResumeAnswer = z.union([
  z.object({ resumed: z.boolean() }),
  z.object({ reason: z.string(), message: z.string(), hint: z.string().optional() }),
]);

const connectMilliseconds = 10_000;
/** Two heartbeats of the client API. */
const stallMilliseconds = 60_000;
/** Longer than the client API works on any request before it answers. */
const responseMilliseconds = 900_000;
const unreachable = /^(ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|UND_ERR_CONNECT_TIMEOUT)$/;
