import type { IncomingMessage, ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { errors, type Dispatcher } from "undici";
import { RametError } from "../base/errors.ts";
import type { ClientOrigin } from "./client-origin.ts";
import { forwardedRequestHeaders, forwardedResponseHead } from "./forwarded-headers.ts";
import type { Route, Upstreams } from "./upstreams.ts";

interface ForwardedExchange {
  request: IncomingMessage;
  response: ServerResponse;
  origin: ClientOrigin;
}

/**
 * Proxies a request to a sandbox and streams the response back.
 * @returns the status of the response, once all of it was sent
 * @throws RametError only before any part of the response was sent; a later failure closes the connection
 */
export async function forward(
  upstreams: Upstreams,
  route: Route,
  { request, response, origin }: ForwardedExchange,
): Promise<number> {
  const closed = new AbortController();
  response.once("close", () => {
    // An abort makes an exception with a stack, which no request needs that was answered.
    if (!response.writableFinished) closed.abort();
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
  // A client that reads an event stream expects the headers before the first event.
  response.flushHeaders();
  await pipeline(answer.body, response).catch(() => response.destroy());
  return answer.statusCode;
}

/** Repeats a safe request once: an idle connection can break, for example by a checkpoint, at the moment of its reuse. */
async function sendRequest(
  upstreams: Upstreams,
  route: Route,
  { request, origin }: Omit<ForwardedExchange, "response">,
  signal: AbortSignal,
): Promise<Dispatcher.ResponseData> {
  const { method = "GET", url = "/", headers } = request;
  const hasBody = headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined;
  const send = () =>
    upstreams.dispatcher.request({
      origin: upstreams.originOf(route),
      path: url,
      method,
      signal,
      headers: forwardedRequestHeaders(request, origin, route.guestToken),
      body: hasBody ? request : null,
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

function failure({ sandbox, port }: Route, error: unknown): RametError {
  if (error instanceof RametError) return error;
  const { namespace, name } = sandbox.metadata;
  const why = error instanceof Error ? error.message : String(error);
  return new RametError(
    "SandboxUnreachable",
    `The sandbox ${name} in ${namespace} sent no valid response on port ${port}: ${why}`,
    { cause: error, retryable: true },
  );
}
