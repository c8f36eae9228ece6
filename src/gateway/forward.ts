import { pipeline } from "node:stream/promises";
import { errors, type Dispatcher } from "undici";
import { RametError } from "../base/errors.ts";
import type { Exchange } from "./exchange.ts";
import { forwardedRequestHeaders, forwardedResponseHead } from "./forwarded-headers.ts";
import { type Route, unreachable, type Upstreams } from "./upstreams.ts";

/**
 * Proxies a request to a sandbox and streams the response back.
 * @returns the status of the response, once all of it was sent
 * @throws RametError only before any part of the response was sent; a later failure closes the connection
 */
export async function forward(
  upstreams: Upstreams,
  route: Route,
  { request, response, origin }: Exchange,
): Promise<number> {
  const closed = new AbortController();
  response.body.once("close", () => {
    // An abort makes an exception with a stack, which no request needs that was answered.
    if (!response.body.writableFinished) closed.abort();
  });
  const answer = await sendRequest(upstreams, route, { request, origin }, closed.signal);
  try {
    const { status, headers } = forwardedResponseHead(answer.statusCode, answer.headers as unknown as string[]);
    response.writeHead(status, headers);
  } catch (error) {
    // Without a listener, the error that ends the body would end the process.
    answer.body.on("error", () => undefined).destroy();
    throw failure(route, error);
  }
  // The response to HEAD has no body, and HTTP/2 has ended it already.
  if (response.body.writableEnded) answer.body.dump().catch(() => undefined);
  else await pipeline(answer.body, response.body).catch(() => response.body.destroy());
  return answer.statusCode;
}

/** Repeats a safe request once: an idle connection can break, for example by a checkpoint, at the moment of its reuse. */
async function sendRequest(
  upstreams: Upstreams,
  route: Route,
  { request, origin }: Omit<Exchange, "response">,
  signal: AbortSignal,
): Promise<Dispatcher.ResponseData> {
  const { method, url, hasBody } = request;
  const send = () =>
    upstreams.dispatcher.request({
      origin: upstreams.originOf(route),
      path: url,
      method,
      signal,
      headers: forwardedRequestHeaders(request, origin, route.guestToken),
      body: hasBody ? request.body() : null,
      responseHeaders: "raw",
    });
  for (let retry = !hasBody && repeatable.has(method); ; retry = false) {
    try {
      return await send();
    } catch (error) {
      if (!retry || signal.aborted || !isBrokenConnection(error)) throw failure(route, error);
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
