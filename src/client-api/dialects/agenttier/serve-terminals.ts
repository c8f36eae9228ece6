import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { FastifyInstance } from "fastify";
import { WebSocketServer } from "ws";
import { RametError } from "../../../base/errors.ts";
import { needs } from "../../keys/needs.ts";
import { admit, apiKeyIn } from "../../routes/serve-routes.ts";
import { type AgentTier, guestFor } from "./call.ts";
import { errorAnswer } from "./errors.ts";
import { serveTerminal } from "./terminal.ts";

const mostMessageBytes = 1024 * 1024;
const path = /^\/ws\/terminal\/([a-z0-9-]{1,63})$/;

/** Serves terminals of sandboxes over WebSockets, at `/ws/terminal/<sandbox>`. Other WebSockets are refused. */
export function serveTerminals(server: FastifyInstance, agentTier: AgentTier): void {
  const sockets = new WebSocketServer({ noServer: true, maxPayload: mostMessageBytes });
  server.server.on("upgrade", (request, connection, head) => {
    connection.on("error", () => {
      connection.destroy();
    });
    admitted(agentTier, request, connection).then(
      (guest) => {
        sockets.handleUpgrade(request, connection, head, (socket) => {
          void serveTerminal(socket, guest, agentTier.service.clock);
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
async function admitted(agentTier: AgentTier, request: IncomingMessage, connection: Duplex) {
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://server");
  const id = path.exec(pathname)?.[1];
  if (id === undefined) throw new RametError("NotFound", "There is no WebSocket at this path");
  const { callers } = agentTier;
  const caller = await admit(callers, apiKeyIn(request.headers) ?? searchParams.get("token") ?? undefined);
  await callers.require(caller, ...needs.enter);
  const ending = new AbortController();
  connection.once("close", () => {
    ending.abort();
  });
  return guestFor(agentTier, { params: { id }, caller, signal: ending.signal });
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
