import type { ServerHttp2Stream } from "node:http2";
import { type IncomingHttpHeaders, type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import { PassThrough, type Readable, type Writable } from "node:stream";
import type { ClientOrigin } from "./client-origin.ts";

/** A request of a client, over HTTP/1.1 or HTTP/2. */
export interface ClientRequest {
  method: string;
  /** The path with its query. */
  url: string;
  headers: IncomingHttpHeaders;
  /** Alternating names and values, without the pseudo-headers of HTTP/2. */
  rawHeaders: readonly string[];
  hasBody: boolean;
  /** Starts reading the body. Destroying it does not end the response. */
  body(): Readable;
  stream?: ServerHttp2Stream;
}

export interface ClientResponse {
  /** Takes the body after `writeHead`. It closes when the response was sent, or cannot be. */
  readonly body: Writable;
  readonly headersSent: boolean;
  /** Sends the head, at the latest in the next turn. @param headers alternating names and values @throws Error if they are invalid */
  writeHead(status: number, headers: readonly string[]): void;
  endWithHead(status: number, headers: readonly string[]): void;
}

export interface Exchange {
  request: ClientRequest;
  response: ClientResponse;
  origin: ClientOrigin;
}

export function http1Request(request: IncomingMessage): ClientRequest {
  const { method = "GET", url = "/", headers, rawHeaders } = request;
  const hasBody = headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined;
  return { method, url, headers, rawHeaders, hasBody, body: () => detachedBody(request) };
}

/**
 * A body whose end leaves the client's connection open. The part that a failed request did not take is discarded, or the client would
 * not read the answer.
 */
function detachedBody(request: IncomingMessage): Readable {
  const body = request.pipe(new PassThrough());
  return body.once("close", () => request.unpipe(body).resume());
}

export function http1Response(response: ServerResponse): ClientResponse {
  return {
    body: response,
    get headersSent() {
      return response.headersSent;
    },
    writeHead: (status, headers) => {
      response.writeHead(status, STATUS_CODES[status] ?? "", [...headers]);
      // A client that reads an event stream expects the headers before the first event. Most other responses have their first bytes
      // now, and send them together with the headers.
      setImmediate(() => {
        if (!response.writableEnded && !response.destroyed) response.flushHeaders();
      });
    },
    endWithHead: (status, headers) => {
      response.writeHead(status, STATUS_CODES[status] ?? "", [...headers]).end();
    },
  };
}
