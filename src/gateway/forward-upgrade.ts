import { request as httpRequest, type IncomingMessage, type ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { pipeline } from "node:stream/promises";
import { RametError } from "../base/errors.ts";
import { forwardedRequestHeaders, forwardedResponseHeaders } from "./forwarded-headers.ts";
import type { Route, Upstreams } from "./upstreams.ts";

export interface Upgrade {
  request: IncomingMessage;
  /** The client's connection. */
  socket: Socket;
  /** What it sent after the request. */
  head: Buffer;
  response: ServerResponse;
}

/**
 * Sends a request on that asks for another protocol, a WebSocket say. If the sandbox agrees, bytes go both ways until either side ends;
 * if it does not, its answer goes back.
 * @returns the status of the answer, when all is over
 * @throws RametError before anything was answered
 */
export async function forwardUpgrade(upstreams: Upstreams, route: Route, upgrade: Upgrade): Promise<number> {
  const { request, socket, head, response } = upgrade;
  const { "content-length": length = "0", "transfer-encoding": encoding } = request.headers;
  if (length !== "0" || encoding !== undefined) {
    throw new RametError("InvalidArgument", "A request that asks for another protocol cannot bring a body", {
      hint: "Send it without the header Upgrade; Java's client does with HttpClient.Version.HTTP_1_1",
    });
  }
  const connection = await upstreams.dial(route);
  socket.once("close", () => connection.destroy());
  if (socket.destroyed) connection.destroy();
  const upstream = httpRequest({
    createConnection: () => connection,
    method: request.method ?? "GET",
    path: request.url ?? "/",
    headers: [
      ...forwardedRequestHeaders(request),
      "Connection",
      "Upgrade",
      "Upgrade",
      request.headers.upgrade ?? "",
    ] as unknown as Record<string, string>,
  });
  const answered = Promise.withResolvers<number>();
  upstream
    .on("error", answered.reject)
    .on("upgrade", (answer, _, rest) => {
      socket.write(headOf(answer));
      socket.write(rest);
      connection.write(head);
      void join(socket, connection).then(() => {
        answered.resolve(101);
      });
    })
    .on("response", (answer) => {
      const status = answer.statusCode ?? 502;
      response.writeHead(status, answer.statusMessage, forwardedResponseHeaders(answer.rawHeaders));
      pipeline(answer, response).then(
        () => {
          answered.resolve(status);
        },
        () => {
          socket.destroy();
          answered.resolve(status);
        },
      );
    })
    .end();
  try {
    return await answered.promise;
  } catch (error) {
    throw new RametError("SandboxUnreachable", `The sandbox ended the connection: ${RametError.from(error).message}`, {
      cause: error,
      retryable: true,
    });
  }
}

/** An answer of 101 as it came: what it says of the connection holds for the client's too. */
function headOf({ statusCode = 101, statusMessage = "", rawHeaders }: IncomingMessage): string {
  const lines = rawHeaders.flatMap((name, at) => (at % 2 === 0 ? [`${name}: ${rawHeaders[at + 1] ?? ""}\r\n`] : []));
  return `HTTP/1.1 ${statusCode} ${statusMessage}\r\n${lines.join("")}\r\n`;
}

/** Carries bytes both ways until both are closed; what the one has sent before its end still reaches the other. */
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
