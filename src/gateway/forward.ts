import type { Readable, Writable } from "node:stream";
import { errors, type Dispatcher } from "undici";
import { RametError } from "../base/errors.ts";
import type { Exchange } from "./exchange.ts";
import { forwardedRequestHeaders, forwardedResponseHead } from "./forwarded-headers.ts";
import { hostFor, type Route, unreachable, type Upstreams } from "./upstreams.ts";

/** A server to which requests are proxied. */
export interface Target {
  dispatcher: Dispatcher;
  origin: string;
  guestToken?: string | undefined;
  /** Replaces the client's header `Host`. */
  host?: string | undefined;
  /** Returns the error for the client, from that of the request. */
  failure: (error: unknown) => RametError;
}

/** Proxies a request to a sandbox, as `forwardTo`. */
export function forward(upstreams: Upstreams, route: Route, exchange: Exchange): Promise<number> {
  const { dispatcher } = upstreams;
  const target = { dispatcher, origin: upstreams.originOf(route), guestToken: route.guestToken, host: hostFor(route) };
  return forwardTo({ ...target, failure: (error) => failure(route, error) }, exchange);
}

/**
 * Proxies a request and streams the response back.
 * @returns the status of the response, once all of it was sent
 * @throws RametError only before any part of the response was sent; a later failure closes the connection
 */
export async function forwardTo(target: Target, { request, response, origin }: Exchange): Promise<number> {
  const closed = new AbortController();
  const arrived: { body?: Readable } = {};
  response.body.once("close", () => {
    // An abort makes an exception with a stack, which no request needs whose response has arrived.
    const isOver = arrived.body === undefined ? response.body.writableFinished : arrived.body.readableEnded;
    if (!isOver) closed.abort();
  });
  const answer = await sendRequest(target, { request, origin }, closed.signal);
  arrived.body = answer.body;
  try {
    const { status, headers } = forwardedResponseHead(answer.statusCode, answer.headers as unknown as string[]);
    response.writeHead(status, headers);
  } catch (error) {
    // Without a listener, the error that ends the body would end the process.
    answer.body.on("error", () => undefined).destroy();
    throw target.failure(error);
  }
  // The response to HEAD has no body, and HTTP/2 has ended it already.
  if (response.body.writableEnded) answer.body.dump().catch(() => undefined);
  else await sendBody(answer.body, response.body);
  return answer.statusCode;
}

/**
 * Resolves when the body was sent, or cannot be; then the connection is closed. Node's `pipeline` would do the same with an
 * exception for each response: a tenth of the CPU time of a small one.
 */
function sendBody(from: Readable, to: Writable): Promise<void> {
  if (from.destroyed || to.destroyed) {
    // Neither of them reports its end again.
    from.on("error", () => undefined).destroy();
    to.destroy();
    return Promise.resolve();
  }
  return new Promise((resolve) => {
    const done = (): void => {
      resolve();
    };
    to.once("finish", done).once("close", done);
    to.on("error", done);
    from.on("error", (error) => to.destroy(error));
    from.once("close", () => {
      if (!from.readableEnded) to.destroy(new Error("The response has no end"));
    });
    from.pipe(to);
  });
}

/** Repeats a safe request once: an idle connection can break, for example by a checkpoint, at the moment of its reuse. */
async function sendRequest(
  { dispatcher, origin: to, guestToken, host, failure }: Target,
  { request, origin }: Omit<Exchange, "response">,
  signal: AbortSignal,
): Promise<Dispatcher.ResponseData> {
  const { method, url, hasBody } = request;
  const send = () =>
    dispatcher.request({
      origin: to,
      path: url,
      method,
      signal,
      headers: forwardedRequestHeaders(request, origin, { guestToken, host }),
      body: hasBody ? request.body() : null,
      responseHeaders: "raw",
    });
  for (let retry = !hasBody && repeatable.has(method); ; retry = false) {
    try {
      return await send();
    } catch (error) {
      if (!retry || signal.aborted || !isBrokenConnection(error)) throw failure(error);
    }
  }
}

function isBrokenConnection(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return error instanceof errors.SocketError || code === "ECONNRESET" || code === "EPIPE";
}

const repeatable: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"]);

function failure(route: Route, error: unknown): RametError {
  if (error instanceof RametError) return unreachable(route, error);
  const why = error instanceof Error ? error.message : String(error);
  return new RametError(
    "SandboxUnreachable",
    `The ${route.title} sent no valid response on port ${route.port}: ${why}`,
    {
      cause: error,
      retryable: true,
    },
  );
}
