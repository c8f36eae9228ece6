import { request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { pipeline } from "node:stream/promises";
import { RametError } from "../base/errors.ts";
import type { ClientOrigin } from "./client-origin.ts";
import { forwardedRequestHeaders, forwardedResponseHead, switchingHead } from "./forwarded-headers.ts";
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
}

/**
 * Proxies a request that asks for a protocol upgrade, such as a WebSocket. If the sandbox agrees, the gateway proxies bytes in
 * both directions until one side closes. Otherwise it returns the sandbox's response.
 * @returns the status of the response, once the connection has ended
 * @throws RametError only before any part of the response was sent
 */
export async function forwardUpgrade(upstreams: Upstreams, route: Route, upgrade: Upgrade): Promise<number> {
  const { request, url, socket, head, response, origin } = upgrade;
  const { "content-length": length = "0", "transfer-encoding": encoding } = request.headers;
  if (length !== "0" || encoding !== undefined) throw upgradeWithBody();
  const connection = await upstreams.dial(route);
  socket.once("close", () => connection.destroy());
  if (socket.destroyed) connection.destroy();
  const upstream = httpRequest({
    createConnection: () => connection,
    method: request.method ?? "GET",
    path: url,
    headers: [
      ...forwardedRequestHeaders(request, origin, { guestToken: route.guestToken, host: hostFor(route) }),
      "Connection",
      "Upgrade",
      "Upgrade",
      request.headers.upgrade ?? "",
    ] as unknown as Record<string, string>,
  });
  const answered = Promise.withResolvers<number>();
  // An exception of a listener would end the process, and the sandbox decides what the listeners get.
  const guarded = (run: () => void): void => {
    try {
      run();
    } catch (error) {
      connection.destroy();
      answered.reject(error);
    }
  };
  upstream
    .on("error", answered.reject)
    .on("upgrade", (answer, _, rest) => {
      guarded(() => {
        socket.write(switchingHead(answer.rawHeaders), "latin1");
        socket.write(rest);
        connection.write(head);
        void join(socket, connection).then(() => {
          answered.resolve(101);
        });
      });
    })
    .on("response", (answer) => {
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
    throw invalidResponse(route, error);
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
