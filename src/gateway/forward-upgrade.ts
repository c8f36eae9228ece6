import { request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { pipeline } from "node:stream/promises";
import { RametError } from "../base/errors.ts";
import type { ClientOrigin } from "./client-origin.ts";
import { forwardedRequestHeaders, forwardedResponseHead, switchingHead } from "./forwarded-headers.ts";
import type { Clock } from "../base/clock.ts";
import { hostFor, invalidResponse, type Route, type Upstreams } from "./upstreams.ts";

export interface Upgrade {
  request: IncomingMessage;
  /** The path with its query that is requested from the program. */
  url: string;
  /** The client's connection. */
  socket: Socket;
  /** The bytes that the client sent after the request. */
  head: Buffer;
  response: ServerResponse;
  origin: ClientOrigin;
  /** Ends `destroyAtEnd`, which lasts until the server agrees. */
  endNotice: () => void;
}

/** A server to which upgrades are proxied. */
export interface UpgradeTarget {
  /** Opens a connection. @throws RametError */
  connect: () => Promise<Socket>;
  guestToken?: string | undefined;
  host?: string | undefined;
  /** Returns the error for the client, from that of the request. */
  failure: (error: unknown) => RametError;
  /** @default none */
  limits?: {
    clock: Clock;
    /** The server answers within this time. */
    answerMilliseconds: number;
    /** A client that takes nothing for this long, while something waits for it, loses its connection. */
    stallMilliseconds: number;
  };
}

/** Proxies an upgrade to a sandbox, as `upgradeTo`. */
export function forwardUpgrade(upstreams: Upstreams, route: Route, upgrade: Upgrade): Promise<number> {
  const { guestToken } = route;
  const connect = () => upstreams.dial(route);
  const failure = (error: unknown) => invalidResponse(route, error);
  return upgradeTo({ connect, guestToken, host: hostFor(route), failure }, upgrade);
}

/**
 * Proxies a request that asks for a protocol upgrade, such as a WebSocket. If the server agrees, the gateway proxies bytes in
 * both directions until one side closes. Otherwise it returns the server's response.
 * @returns the status of the response, once the connection has ended
 * @throws RametError only before any part of the response was sent
 */
export async function upgradeTo(target: UpgradeTarget, upgrade: Upgrade): Promise<number> {
  const { request, url, socket, head, response, origin } = upgrade;
  const { "content-length": length = "0", "transfer-encoding": encoding } = request.headers;
  if (length !== "0" || encoding !== undefined) throw upgradeWithBody();
  const connection = await target.connect();
  socket.once("close", () => connection.destroy());
  if (socket.destroyed) connection.destroy();
  const upstream = httpRequest({
    createConnection: () => connection,
    method: request.method ?? "GET",
    path: url,
    headers: [
      ...forwardedRequestHeaders(request, origin, target),
      "Connection",
      "Upgrade",
      "Upgrade",
      request.headers.upgrade ?? "",
    ] as unknown as Record<string, string>,
  });
  const answered = Promise.withResolvers<number>();
  // An exception of a listener would end the process, and the server decides what the listeners get.
  const guarded = (run: () => void): void => {
    try {
      run();
    } catch (error) {
      connection.destroy();
      answered.reject(error);
    }
  };
  const { limits } = target;
  const cancelAnswer = limits?.clock.schedule(limits.answerMilliseconds, () => {
    connection.destroy(new Error("it did not answer in time"));
  });
  upstream
    .on("error", answered.reject)
    .on("upgrade", (answer, _, rest) => {
      cancelAnswer?.();
      guarded(() => {
        socket.write(switchingHead(answer.rawHeaders), "latin1");
        socket.write(rest);
        connection.write(head);
        if (limits !== undefined) endWhenStalled(socket, limits);
        upgrade.endNotice();
        void join(socket, connection).then(() => {
          answered.resolve(101);
        });
      });
    })
    .on("response", (answer) => {
      cancelAnswer?.();
      guarded(() => {
        const { status, headers } = forwardedResponseHead(answer.statusCode ?? 0, answer.rawHeaders);
        response.writeHead(status, headers);
        void pipeline(answer, response)
          .catch(() => socket.destroy())
          .then(() => {
            answered.resolve(status);
          });
      });
    })
    .end();
  try {
    return await answered.promise;
  } catch (error) {
    throw target.failure(error);
  } finally {
    cancelAnswer?.();
  }
}

/**
 * Destroys a connection as soon as the client closes it, without taking what the client has sent. Node does not read from the
 * connection of an upgrade, so it would not notice that a waiting client has left.
 * @returns a function that ends this
 */
export function destroyAtEnd(socket: Socket): () => void {
  const onReadable = (): void => {
    // Only then does it report the end.
    if (socket.readableLength === 0) socket.read();
  };
  const onEnd = (): void => {
    socket.destroy();
  };
  socket.on("readable", onReadable).once("end", onEnd);
  return () => socket.off("readable", onReadable).off("end", onEnd);
}

export function upgradeWithBody(): RametError {
  return new RametError("InvalidArgument", "A request for a protocol upgrade cannot have a body", {
    hint: upgradeHint,
  });
}

export const upgradeHint =
  "Send the request without the header Upgrade; with Java's HttpClient, select Version.HTTP_1_1";

function endWhenStalled(socket: Socket, { clock, stallMilliseconds }: NonNullable<UpgradeTarget["limits"]>): void {
  let taken = -1;
  let cancel = (): void => undefined;
  const check = (): void => {
    const now = socket.bytesWritten - socket.writableLength;
    if (socket.writableLength > 0 && now === taken) socket.destroy();
    taken = now;
    cancel = clock.schedule(stallMilliseconds, check);
  };
  check();
  socket.once("close", () => {
    cancel();
  });
}

/** Proxies bytes in both directions until both sides are closed. Delivers everything that a side sent before it closed. */
async function join(one: Socket, other: Socket): Promise<void> {
  const closed = [one, other].map((socket) => new Promise((resolve) => socket.once("close", resolve)));
  for (const [from, to] of [
    [one, other],
    [other, one],
  ] as const) {
    from.on("error", () => from.destroy());
    from.once("close", () => {
      to.destroySoon();
    });
    from.pipe(to);
  }
  await Promise.all(closed);
}
