import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { FastifyInstance } from "fastify";
import { WebSocketServer } from "ws";
import { RametError } from "../../../base/errors.ts";
import { needs } from "../../keys/needs.ts";
import { runningGuest, type AgentTierOptions } from "./call.ts";
import { errorAnswer } from "./errors.ts";
import { serveTerminal } from "./terminal.ts";
import { findSandboxByName } from "../../service/find-sandbox.ts";

const mostMessageBytes = 1024 * 1024;
const path = /^\/ws\/terminal\/([a-z0-9-]{1,63})$/;

/** Serves terminals of sandboxes over WebSockets, at `/ws/terminal/<sandbox>`. Other WebSockets are refused. */
export function serveTerminals(server: FastifyInstance, options: AgentTierOptions): void {
  const sockets = new WebSocketServer({ noServer: true, maxPayload: mostMessageBytes });
  server.server.on("upgrade", (request, connection, head) => {
    connection.on("error", () => {
      connection.destroy();
    });
    admitted(options, request, connection).then(
      (guest) => {
        sockets.handleUpgrade(request, connection, head, (socket) => {
          void serveTerminal(socket, guest, options.service.clock);
        });
      },
      (error: unknown) => {
        refuse(connection, error);
      },
    );
  });
  // The server waits for open connections.
  server.addHook("preClose", (done) => {
    for (const socket of sockets.clients) socket.close(1001);
    done();
  });
}

/** @throws RametError `NotFound`, `Unauthorized`, `Forbidden`, `TooManyRequests`, `Conflict` */
async function admitted(
  { callers, rates, service, guestOf }: AgentTierOptions,
  request: IncomingMessage,
  connection: Duplex,
) {
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://server");
  const name = path.exec(pathname)?.[1];
  if (name === undefined) throw new RametError("NotFound", "There is no WebSocket at this path");
  const bearer = /^Bearer (.+)$/i.exec(request.headers.authorization ?? "")?.[1];
  const given = [request.headers["x-api-key"]].flat()[0] ?? bearer ?? searchParams.get("token") ?? undefined;
  const caller = await callers.authenticate(given);
  if (rates.take(caller.key, caller.limits.requestsPerSecond) > 0)
    throw new RametError("TooManyRequests", `The API key ${caller.key} may send fewer requests per second`);
  await callers.require(caller, ...needs.enter);
  const ending = new AbortController();
  connection.once("close", () => {
    ending.abort();
  });
  const sandbox = await findSandboxByName(service, caller.namespace, name, ending.signal);
  return runningGuest({ service, guestOf }, sandbox, ending.signal);
}

/** In plain text, as AgentTier. */
function refuse(connection: Duplex, error: unknown): void {
  const { status, body } = errorAnswer(error);
  const text = `${body.error}\n`;
  const head = [
    "content-type: text/plain; charset=utf-8",
    `content-length: ${Buffer.byteLength(text)}`,
    "connection: close",
  ];
  connection.end(`HTTP/1.1 ${status} Refused\r\n${head.join("\r\n")}\r\n\r\n${text}`);
}
