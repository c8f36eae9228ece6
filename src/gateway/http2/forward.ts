import type { IncomingHttpHeaders as Http1Headers } from "node:http";
import {
  type ClientHttp2Stream,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
  type ServerHttp2Stream,
  constants,
} from "node:http2";
import { PassThrough } from "node:stream";
import type { ClientRequest, ClientResponse, Exchange } from "../exchange.ts";
import { forwardedRequestHeaders, forwardedResponseHead } from "../forwarded-headers.ts";
import { type Route, hostFor, invalidResponse } from "../upstreams.ts";
import type { Http2Upstreams } from "./upstreams.ts";

/**
 * Proxies a request over HTTP/2 to a program that speaks HTTP/2, with the trailers of the response, which gRPC needs.
 * @returns the status of the response, once all of it was sent
 * @throws RametError only before any part of the response was sent; a later failure resets the stream
 */
export async function forwardHttp2(
  upstreams: Http2Upstreams,
  route: Route,
  { request, origin }: Pick<Exchange, "request" | "origin">,
  client: ServerHttp2Stream,
): Promise<number> {
  const { method, url, headers, hasBody } = request;
  const { host, ...rest } = headersOf(
    forwardedRequestHeaders(request, origin, { guestToken: route.guestToken, host: hostFor(route) }),
  );
  const outgoing = {
    ...rest,
    ":method": method,
    ":path": url,
    ":scheme": "http",
    ":authority": host ?? "sandbox",
    // The only value that HTTP/2 allows. Some gRPC servers require it.
    ...(headers["te"] !== undefined && { te: "trailers" }),
  };
  const upstream = await upstreams.request(route, outgoing, !hasBody);
  const answer = new Answer(upstream);
  cancelWith(client, upstream);
  if (hasBody) client.pipe(upstream);
  const { status, headers: answered, isWhole } = await answer.head(route);
  client.respond({ ...answered, ":status": status }, { endStream: isWhole, waitForTrailers: !isWhole });
  if (isWhole) return status;
  const sent = untilTrailersSent(client, () => answer.trailers ?? {});
  const outcome = { isComplete: false };
  upstream.pipe(client, { end: false });
  upstream.once("end", () => {
    // Node also ends a stream whose connection breaks, with a code.
    outcome.isComplete = upstream.rstCode === constants.NGHTTP2_NO_ERROR;
    if (outcome.isComplete) client.end();
  });
  await answer.closed;
  if (!outcome.isComplete) client.close(incompleteCode(upstream.rstCode));
  await sent;
  return status;
}

/** Ends the response with trailers. @returns resolves when they were sent, or cannot be */
function untilTrailersSent(client: ServerHttp2Stream, trailers: () => IncomingHttpHeaders): Promise<void> {
  return new Promise((resolve) => {
    client
      .once("close", () => {
        resolve();
      })
      .once("wantTrailers", () => {
        try {
          client.sendTrailers(trailers());
        } catch {
          // Node rejects trailers that a program may not send, such as a status.
          client.close(constants.NGHTTP2_INTERNAL_ERROR);
        }
        resolve();
      });
  });
}

/** Node reports a broken connection as canceled, and clients take that for the end of a response that they canceled. */
function incompleteCode(code: number | undefined): number {
  const { NGHTTP2_NO_ERROR, NGHTTP2_CANCEL, NGHTTP2_INTERNAL_ERROR } = constants;
  return code === undefined || code === NGHTTP2_NO_ERROR || code === NGHTTP2_CANCEL ? NGHTTP2_INTERNAL_ERROR : code;
}

/** A client that resets its stream, or disconnects, ends the program's work. */
function cancelWith(client: ServerHttp2Stream, upstream: ClientHttp2Stream): void {
  const cancel = (): void => {
    if (!upstream.closed) upstream.close(constants.NGHTTP2_CANCEL);
  };
  if (client.closed || client.destroyed) cancel();
  else client.once("close", cancel);
  // A program can respond before it has read the request. The rest of the request is discarded.
  upstream.once("close", () => {
    client.unpipe(upstream).resume();
  });
}

/** The response of a program, which is not trusted. */
class Answer {
  /** Resolves when the stream has closed, for any reason. */
  readonly closed: Promise<Error | undefined>;
  trailers: IncomingHttpHeaders | undefined;
  readonly #head: Promise<[IncomingHttpHeaders, number]>;

  constructor(upstream: ClientHttp2Stream) {
    let failed: Error | undefined;
    const { promise, resolve } = Promise.withResolvers<[IncomingHttpHeaders, number]>();
    this.#head = promise;
    upstream.once("response", (headers, flags) => {
      resolve([headers, flags]);
    });
    // Node can report the trailers before a promise of the response has resolved.
    upstream.once("trailers", (trailers: IncomingHttpHeaders) => {
      this.trailers = trailers;
    });
    this.closed = new Promise((resolve) => {
      upstream
        .on("error", (error: Error) => (failed = error))
        .once("close", () => {
          resolve(failed);
        });
    });
  }

  /** @throws RametError `SandboxUnreachable` */
  async head(route: Route): Promise<{ status: number; headers: IncomingHttpHeaders; isWhole: boolean }> {
    try {
      const head = await Promise.race([this.#head, this.closed]);
      if (head === undefined || head instanceof Error) throw head ?? new Error("it closed the stream");
      const [{ ":status": code, ...headers }, flags] = head as [IncomingHttpHeaders & { ":status"?: number }, number];
      const { status } = forwardedResponseHead(Number(code), []);
      // A gRPC response can be one block of headers, which must stay the only one.
      return { status, headers, isWhole: (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0 };
    } catch (error) {
      throw invalidResponse(route, error);
    }
  }
}

/** The arguments that Node passes to a listener of `stream`. */
export interface Http2Request {
  stream: ServerHttp2Stream;
  headers: IncomingHttpHeaders;
  rawHeaders: readonly string[];
}

/** Returns a request as HTTP/1.1 has it: with a Host header, and the parts of a cookie in one header (RFC 9113, 8.2.3). */
export function http2Request({ stream, headers, rawHeaders }: Http2Request): ClientRequest {
  const { ":method": method = "GET", ":path": url = "/", ":authority": authority } = headers;
  const host = authority ?? headers.host;
  const isOwn = (name: string): boolean => name.startsWith(":") || name === "cookie" || name === "host";
  const kept = rawHeaders.flatMap((name, at) => (at % 2 === 0 && !isOwn(name) ? [name, rawHeaders[at + 1] ?? ""] : []));
  return {
    method,
    url,
    headers: { ...(headers as Http1Headers), host },
    rawHeaders: [
      ...(host === undefined ? [] : ["host", host]),
      ...kept,
      ...(headers.cookie === undefined ? [] : ["cookie", headers.cookie]),
    ],
    hasBody: !stream.endAfterHeaders,
    body: () => stream.pipe(new PassThrough()),
    stream,
  };
}

export function http2Response(stream: ServerHttp2Stream): ClientResponse {
  return {
    body: stream,
    get headersSent() {
      return stream.headersSent;
    },
    writeHead: (status, headers) => {
      stream.respond({ ...headersOf(headers), ":status": status });
    },
    endWithHead: (status, headers) => {
      stream.respond({ ...headersOf(headers), ":status": status }, { endStream: true });
    },
  };
}

/** Returns headers as Node's HTTP/2 takes them. @param raw alternating names and values */
function headersOf(raw: readonly string[]): OutgoingHttpHeaders {
  const headers: Record<string, string | string[]> = Object.create(null) as Record<string, string[]>;
  for (let at = 0; at < raw.length; at += 2) {
    const [name, value] = [raw[at]?.toLowerCase() ?? "", raw[at + 1] ?? ""];
    const before = headers[name];
    headers[name] = before === undefined ? value : [before, value].flat();
  }
  return headers;
}
