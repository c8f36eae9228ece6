import type { IncomingHttpHeaders as Http1Headers } from "node:http";
import type { IncomingHttpHeaders, OutgoingHttpHeaders, ServerHttp2Stream } from "node:http2";
import { PassThrough } from "node:stream";
import type { ClientRequest, ClientResponse } from "../exchange.ts";

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
export function headersOf(raw: readonly string[]): OutgoingHttpHeaders {
  const headers: Record<string, string | string[]> = Object.create(null) as Record<string, string[]>;
  for (let at = 0; at < raw.length; at += 2) {
    const [name, value] = [raw[at]?.toLowerCase() ?? "", raw[at + 1] ?? ""];
    const before = headers[name];
    headers[name] = before === undefined ? value : [before, value].flat();
  }
  return headers;
}
