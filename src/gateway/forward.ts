import type { IncomingMessage, ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { errors, type Dispatcher } from "undici";
import { RametError } from "../base/errors.ts";
import { forwardedRequestHeaders, forwardedResponseHeaders } from "./forwarded-headers.ts";
import type { Route, Upstreams } from "./upstreams.ts";

/**
 * Sends a request on to a sandbox, and the answer back as it comes.
 * @returns the status of the answer, when all of it has gone
 * @throws RametError before anything was answered; what breaks later breaks the connection
 */
export async function forward(
  upstreams: Upstreams,
  route: Route,
  { request, response }: { request: IncomingMessage; response: ServerResponse },
): Promise<number> {
  const left = new AbortController();
  response.once("close", () => {
    left.abort();
  });
  const answer = await ask(upstreams, route, request, left.signal);
  const headers = forwardedResponseHeaders(answer.headers as unknown as string[]);
  response.writeHead(answer.statusCode, answer.statusText, headers);
  // A client that reads what comes, event by event, waits for the first one with the headers.
  response.flushHeaders();
  await pipeline(answer.body, response).catch(() => response.destroy());
  return answer.statusCode;
}

/** A connection that was kept may be cut, by a checkpoint say, in the very moment in which it is used again. */
async function ask(
  upstreams: Upstreams,
  route: Route,
  request: IncomingMessage,
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
      headers: forwardedRequestHeaders(request),
      body: hasBody ? request : null,
      responseHeaders: "raw",
    });
  for (let again = !hasBody && repeatable.has(method); ; again = false) {
    try {
      return await send();
    } catch (error) {
      if (!again || signal.aborted || !wasCut(error)) throw failure(route, error);
    }
  }
}

function wasCut(error: unknown): boolean {
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
    `The port ${port} of the sandbox ${name} in ${namespace} gave no answer that can be passed on: ${why}`,
    { cause: error, retryable: true },
  );
}
