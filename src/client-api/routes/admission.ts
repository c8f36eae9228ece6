import type { IncomingMessage } from "node:http";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import type { KeyValue } from "../../api/keys/api-key-rules.ts";
import type { HeldBytes } from "../../base/byte-budget.ts";
import { RametError } from "../../base/errors.ts";
import { limitedAddress } from "../../base/slots.ts";
import type { Connections } from "../connections.ts";
import type { Caller, Callers, Need } from "../keys/callers.ts";
import type { ClientLimits, LimitedKey } from "./client-limits.ts";

/**
 * Decides by the headers of a request whether its body is read. Everyone may send a request of a `public` route.
 * @returns the API key for whose limits the request counts @throws RametError such as `Unauthorized`, which is the answer
 */
export type Access = "public" | ((request: FastifyRequest, reply: FastifyReply) => Promise<LimitedKey | undefined>);

declare module "fastify" {
  interface FastifyContextConfig {
    access?: Access;
    /** Whether a request may take as long as an upload. @default it may take 20 s until its end */
    isLong?: boolean;
    /** Whether only a small part of the body is held at a time. @default the whole body is */
    isStreamed?: boolean;
  }
  interface FastifyInstance {
    connections: Connections;
    limits: ClientLimits;
  }
  interface FastifyRequest {
    /** The bytes that the server holds for the request: its body, and what a handler adds. */
    held: HeldBytes;
    /** Who has sent the request, unless its route is public. */
    caller?: Caller;
  }
}

/** Checks the access to every route before a body is read. A route that does not declare its access fails at the start. */
export function admitRequests(server: FastifyInstance): void {
  server.addHook("onRoute", ({ method, url, config }) => {
    if (config?.access === undefined)
      throw new RametError("Internal", `The route ${String(method)} ${url} does not declare its access`);
  });
  // Node would ask clients for the bodies of requests that are refused.
  server.server.on("checkContinue", (request, response) => {
    server.routing(request, response);
  });
  server.addHook("onRequest", (request, reply, next) => {
    const { handler, config } = request.routeOptions;
    const { access = "public" } = config;
    const { socket } = request.raw;
    server.connections.asked(socket);
    const admitted = (key?: LimitedKey): void => {
      // The client has left, or its key was revoked meanwhile.
      if (socket.destroyed) return;
      const bytes = config.isStreamed === true ? Math.min(bodyBytes(request), streamBytes) : bodyBytes(request);
      const { held, release } = server.limits.enter(socket, key, bytes);
      request.held = held;
      whenOver(reply, release);
      if (request.headers.expect !== undefined) reply.raw.writeContinue();
      next();
    };
    const authenticated = (key: LimitedKey | undefined): void => {
      server.connections.authenticated(socket);
      admitted(key);
    };
    if (request.is404) handler.call(server, request, reply);
    else if (access !== "public") access(request, reply).then(authenticated).catch(next);
    else
      try {
        admitted();
      } catch (error) {
        next(error as Error);
      }
  });
}

/** The size of a body that was announced, or the largest one that is accepted. */
function bodyBytes({ headers, routeOptions: { bodyLimit } }: FastifyRequest): number {
  if (headers["transfer-encoding"] !== undefined) return bodyLimit;
  return Math.min(Number(headers["content-length"] ?? 0), bodyLimit);
}

/** The buffers of a body that is passed on as it arrives. */
const streamBytes = 256 * 1024;

/** The access of clients with a key whose service account has these rights. */
export function withKey(callers: Callers, ...needs: readonly Need[]): Access & object {
  return async (request, reply) => {
    const caller = await admit(callers, apiKeyIn(request.headers), request.raw, reply);
    await callers.require(caller, ...needs);
    request.caller = caller;
    endWithKey(callers, reply, caller, needs);
    return caller;
  };
}

/** Closes the connection of a request as soon as the value of its key is revoked or expires, and soon after the rights are lost. */
export function endWithKey(callers: Callers, reply: FastifyReply, value: KeyValue, needs: readonly Need[]): void {
  // Not the response: one that waits for the answers before it has no connection yet.
  const over = callers.endWhenRevoked(value, () => reply.request.raw.socket.destroy(), needs);
  whenOver(reply, over);
}

/** The client of a request that `withKey` has admitted; nobody for a public route. */
export function callerOf({ caller = nobody }: FastifyRequest): Caller {
  return caller;
}

const nobody: Caller = {
  namespace: "",
  serviceAccount: "",
  key: "",
  digest: "",
  user: { user: "system:anonymous", groups: ["system:unauthenticated"] },
  limits: { sandboxes: 0, requestsPerSecond: 0, concurrentRequests: 0, bytesInFlight: 0, snapshotBytes: 0 },
};

export function apiKeyIn(headers: FastifyRequest["headers"]): string | undefined {
  return [headers["x-api-key"]].flat()[0] ?? /^Bearer (.+)$/i.exec(headers.authorization ?? "")?.[1];
}

/** @throws RametError `Unauthorized`; `TooManyRequests` above the limit of the key */
export async function admit(
  callers: Callers,
  apiKey: string | undefined,
  { socket: { remoteAddress = "unknown" } }: Pick<IncomingMessage, "socket">,
  reply?: FastifyReply,
): Promise<Caller> {
  const caller = await callers.authenticate(apiKey, limitedAddress(remoteAddress));
  const waitSeconds = callers.rates.take(caller.key, caller.limits.requestsPerSecond);
  if (waitSeconds === 0) return caller;
  void reply?.header("retry-after", waitSeconds);
  throw new RametError("TooManyRequests", `The API key ${caller.key} may send fewer requests per second`, {
    retryable: true,
  });
}

/**
 * Calls `run` once when a request is over: immediately if it is, otherwise after its answer or with its connection. Node does not
 * close the response of a pipelined request whose connection closes while it waits for the answers before it.
 */
export function whenOver({ raw, request }: FastifyReply, run: () => void): void {
  const { socket } = request.raw;
  if (raw.destroyed || socket.destroyed) {
    run();
    return;
  }
  const over = (): void => {
    raw.removeListener("close", over);
    socket.removeListener("close", over);
    run();
  };
  raw.once("close", over);
  socket.once("close", over);
}

/** Also aborts after the answer, when nothing waits any more. */
export function untilClosed(reply: FastifyReply): AbortSignal {
  const closed = new AbortController();
  whenOver(reply, () => {
    closed.abort();
  });
  return closed.signal;
}
