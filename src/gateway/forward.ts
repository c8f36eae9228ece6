import type { Readable } from "node:stream";
import { errors, type Dispatcher } from "undici";
import { RametError } from "../base/errors.ts";
import type { ClientRequest, Exchange } from "./exchange.ts";
import { forwardedRequestHeaders, forwardedResponseHead } from "./forwarded-headers.ts";
import { hostFor, invalidResponse, type Route, unreachable, type Upstreams } from "./upstreams.ts";

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
 * Proxies a request and streams the response back. Repeats a safe request once: an idle connection can break, for example by a
 * checkpoint, at the moment of its reuse.
 * @returns the status of the response, once all of it was sent
 * @throws RametError only before any part of the response was sent; a later failure closes the connection
 */
export async function forwardTo(target: Target, exchange: Exchange): Promise<number> {
  for (let retry = isRepeatable(exchange.request); ; retry = false) {
    const attempt = new Attempt(exchange);
    try {
      return await attempt.send(target);
    } catch (error) {
      if (!retry || attempt.clientHasLeft || !isBrokenConnection(error)) throw target.failure(error);
    }
  }
}

/**
 * One request to a server, whose response is written to the client as it arrives. A stream for the response, as of undici's `request`,
 * with its pipe and the signal that ends it, took a seventh to a third of the CPU time of a small one.
 */
class Attempt implements Dispatcher.DispatchHandler {
  readonly #exchange: Exchange;
  readonly #sent = Promise.withResolvers<number>();
  #controller: Dispatcher.DispatchController | undefined;
  #requestBody: Readable | null = null;
  /** Undefined before the head of the response was sent. */
  #status: number | undefined;
  #clientHasLeft = false;
  /** The server has sent all of the response, or will not. */
  #isOver = false;

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
  }

  get clientHasLeft(): boolean {
    return this.#clientHasLeft;
  }

  /** Resolves with the status when the response was sent, or cannot be; then the connection is closed. @throws Error before its head */
  send({ dispatcher, origin: to, guestToken, host }: Target): Promise<number> {
    const { request, response, origin } = this.#exchange;
    const { method, url: path, hasBody } = request;
    response.body.once("close", this.#onClose);
    if (response.body.destroyed) this.#onClose();
    this.#requestBody = hasBody ? request.body() : null;
    const headers = forwardedRequestHeaders(request, origin, { guestToken, host });
    dispatcher.dispatch({ origin: to, path, method, headers, body: this.#requestBody }, this);
    return this.#sent.promise;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#clientHasLeft) controller.abort(new errors.RequestAbortedError());
  }

  onResponseStart(controller: Dispatcher.DispatchController, statusCode: number): void {
    // Not the final one.
    if (statusCode < 200) return;
    const { response } = this.#exchange;
    try {
      const { status, headers } = forwardedResponseHead(statusCode, textOf(controller.rawHeaders));
      response.writeHead(status, headers);
    } catch (error) {
      this.#fail(error);
      controller.abort(error as Error);
      return;
    }
    this.#status = statusCode;
    const { body } = response;
    // Its end closes the connection, and the listener for that is there.
    body.on("error", () => undefined);
    // The response to HEAD has no body, and HTTP/2 has ended it already.
    if (body.writableEnded) this.#sent.resolve(statusCode);
    else body.once("finish", this.#onFinish).on("drain", this.#onDrain);
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const { body } = this.#exchange.response;
    if (this.#status === undefined || body.writableEnded || body.destroyed) return;
    if (!body.write(chunk)) controller.pause();
  }

  onResponseEnd(): void {
    this.#isOver = true;
    const { body } = this.#exchange.response;
    if (!body.writableEnded) body.end();
  }

  onResponseError(_: unknown, error: Error): void {
    // Further bytes of the client are discarded.
    this.#requestBody?.on("error", () => undefined).destroy();
    this.#fail(error);
  }

  #fail(error: unknown): void {
    this.#isOver = true;
    const { body } = this.#exchange.response;
    if (this.#status !== undefined) body.destroy(error as Error);
    // Another attempt may follow.
    else body.off("close", this.#onClose);
    this.#sent.reject(error);
  }

  readonly #onFinish = (): void => {
    this.#sent.resolve(this.#status ?? 0);
  };

  readonly #onDrain = (): void => {
    this.#controller?.resume();
  };

  readonly #onClose = (): void => {
    // An abort makes an exception with a stack, which no request needs whose response has arrived.
    if (!this.#isOver) {
      this.#clientHasLeft = true;
      this.#controller?.abort(new errors.RequestAbortedError());
    }
    if (this.#status !== undefined) this.#sent.resolve(this.#status);
  };
}

/** Each value as its bytes. */
function textOf(raw: Dispatcher.DispatchController["rawHeaders"]): string[] {
  return Array.isArray(raw) ? raw.map((part) => (typeof part === "string" ? part : part.toString("latin1"))) : [];
}

function isBrokenConnection(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return error instanceof errors.SocketError || code === "ECONNRESET" || code === "EPIPE";
}

/** Whether it may be sent twice. */
export function isRepeatable({ method, hasBody }: ClientRequest): boolean {
  return !hasBody && repeatable.has(method);
}

const repeatable: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"]);

function failure(route: Route, error: unknown): RametError {
  return error instanceof RametError ? unreachable(route, error) : invalidResponse(route, error);
}
