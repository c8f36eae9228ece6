import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import type { FastifyInstance } from "fastify";
import { WebSocketServer, type WebSocket } from "ws";
import * as z from "zod";
import type { HeldBytes } from "../../../base/byte-budget.ts";
import { RametError } from "../../../base/errors.ts";
import { endWith } from "../../../base/http.ts";
import { needs } from "../../keys/needs.ts";
import { admit, apiKeyIn } from "../../routes/admission.ts";
import { type AgentTier, guestFor, errorAnswer } from "./call.ts";
import { canceled, type Clock } from "../../../base/clock.ts";
import type { GuestClient } from "../../../cell/client/guest-client.ts";
import type { GuestInput } from "../../../cell/client/guest-input.ts";

const mostMessageBytes = 1024 * 1024;
const path = /^\/ws\/terminal\/([a-z0-9-]{1,63})$/;

/** Serves terminals of sandboxes over WebSockets, at `/ws/terminal/<sandbox>`. Other WebSockets are refused. */
export function serveTerminals(server: FastifyInstance, agentTier: AgentTier): void {
  const sockets = new WebSocketServer({ noServer: true, maxPayload: mostMessageBytes });
  server.server.on("upgrade", (request, connection, head) => {
    connection.on("error", () => {
      connection.destroy();
    });
    admitted(server, agentTier, request).then(
      ({ guest, held }) => {
        sockets.handleUpgrade(request, connection, head, (socket) => {
          const queued = countInput(socket, connection, held);
          void serveTerminal(socket, { guest, clock: agentTier.service.clock, queued });
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
async function admitted(server: FastifyInstance, agentTier: AgentTier, request: IncomingMessage) {
  const { socket: connection } = request;
  const { pathname, searchParams } = new URL(request.url ?? "/", "http://server");
  const id = path.exec(pathname)?.[1];
  if (id === undefined) throw new RametError("NotFound", "There is no WebSocket at this path");
  const { callers } = agentTier;
  const key = apiKeyIn(request.headers) ?? searchParams.get("token") ?? undefined;
  const caller = await admit(callers, key, request);
  await callers.require(caller, ...needs.enter);
  // It does not close a second time.
  if (connection.destroyed) throw canceled("The terminal");
  const end = (): void => {
    connection.destroy();
  };
  connection.once("close", callers.endWhenRevoked(caller, end, needs.enter));
  server.connections.authenticated(connection);
  const { held, release } = server.limits.enter(connection, caller, terminalBytes);
  connection.once("close", release);
  const ending = new AbortController();
  connection.once("close", () => {
    ending.abort();
  });
  const guest = await guestFor(agentTier, { params: { id }, caller, signal: ending.signal });
  return { guest, held };
}

/** What a terminal takes besides the messages of its client. */
const terminalBytes = 64 * 1024;

/**
 * Counts what a client has sent and the shell has not read, a message that has not ended, and answers that the client has not read.
 * The connection ends when it is too much. @returns a function that gets the size of the queue
 */
function countInput(socket: WebSocket, connection: Duplex, held: HeldBytes): (queuedBytes: number) => void {
  let [queuedBytes, begunBytes] = [0, 0];
  const count = (): void => {
    const { bufferedAmount } = socket;
    try {
      held.hold(terminalBytes + queuedBytes + begunBytes + bufferedAmount);
    } catch {
      socket.terminate();
    }
    // Each ping of a client gets an answer.
    if (bufferedAmount > mostWaitingBytes) socket.terminate();
  };
  connection.on("data", (chunk: Buffer) => {
    begunBytes += chunk.length;
    count();
  });
  socket.on("message", () => {
    begunBytes = 0;
  });
  return (bytes) => {
    queuedBytes = bytes;
    count();
  };
}

/** In plain text, as AgentTier. */
function refuse(connection: Duplex, error: unknown): void {
  const { status, body } = errorAnswer(error);
  endWith(connection, { status, type: "text/plain; charset=utf-8", body: `${body.error}\n` });
}

/** Shorter than load balancers keep a silent connection. As in AgentTier. */
const heartbeatMilliseconds = 30_000;

const Size = z.int().min(1).max(10_000);
/** The messages that the browser of a user sends. (Source: AgentTier at 74b1ea6.) */
const Message = z.discriminatedUnion("type", [
  z.object({ type: z.literal("input"), data: z.string() }),
  z.object({ type: z.literal("resize"), cols: Size, rows: Size }),
  z.object({ type: z.literal("ping") }),
]);
type Message = z.infer<typeof Message>;

/** The user's shell is `bash`, where the image has it. */
const shell = {
  command: "/bin/sh",
  args: ["-c", "exec $(command -v bash || echo sh)"],
  pty: { columns: 80, rows: 24 },
};

interface Terminal {
  guest: GuestClient;
  clock: Clock;
  /** Gets the size of the queue of input. */
  queued: (bytes: number) => void;
}

/** Connects a WebSocket with a new shell of a sandbox, until either of them ends. */
async function serveTerminal(socket: WebSocket, { guest, clock, queued }: Terminal): Promise<void> {
  const closed = new AbortController();
  let opened: Session | undefined;
  const started = Promise.withResolvers<undefined>();
  const handle = async (text: string): Promise<void> => {
    await started.promise;
    if (opened !== undefined) await apply(parsedMessage(text), opened);
  };
  handleInOrder(socket, handle, queued);
  socket.once("close", () => {
    closed.abort();
    started.resolve(undefined);
  });
  socket.on("error", () => {
    socket.terminate();
  });
  const stopHeartbeat = heartbeat(socket, clock);
  const decoder = new StringDecoder("utf8");
  try {
    for await (const event of guest.startProcess(shell, closed.signal)) {
      if (event.type === "start") {
        const { pid } = event;
        opened = { socket, guest, pid, input: guest.openInput({ pid }, "pty") };
        started.resolve(undefined);
      } else if (event.type === "data")
        await send(socket, { type: "output", stream: "stdout", data: decoder.write(event.data) });
      else await send(socket, { type: "close", code: event.exitCode });
    }
  } catch (error) {
    if (!closed.signal.aborted) await report(socket, error);
  } finally {
    stopHeartbeat();
    opened?.input.close();
    if (opened !== undefined) await guest.signal({ pid: opened.pid }, "SIGKILL").catch(() => undefined);
    socket.close();
  }
}

/**
 * Handles the messages of a client one after another, and reads no more of them while some wait: a program that does not read its
 * input holds back its user. Errors become messages.
 */
export function handleInOrder(
  socket: WebSocket,
  handle: (text: string) => Promise<void>,
  queued: (bytes: number) => void = () => undefined,
): void {
  let waitingBytes = 0;
  let handled = Promise.resolve();
  socket.on("message", (data) => {
    // Messages are Buffers, as the default binaryType of `ws` says.
    const text = (data as Buffer).toString();
    const bytes = text.length + messageOverheadBytes;
    waitingBytes += bytes;
    if (waitingBytes > mostWaitingBytes) socket.terminate();
    else if (waitingBytes > pausedFromBytes) socket.pause();
    queued(waitingBytes);
    handled = handled
      .then(() => handle(text))
      .catch((error: unknown) => report(socket, error))
      .finally(() => {
        waitingBytes -= bytes;
        queued(waitingBytes);
        if (waitingBytes <= pausedFromBytes) socket.resume();
      });
  });
}

/** What a message takes in memory besides its text. */
const messageOverheadBytes = 256;
const pausedFromBytes = 64 * 1024;
/** More than a pause leaves: a message, and the small ones in the bytes that were read before it. */
const mostWaitingBytes = 4 * mostMessageBytes;

interface Session {
  socket: WebSocket;
  guest: GuestClient;
  pid: number;
  input: GuestInput;
}

async function apply(message: Message, { socket, guest, pid, input }: Session): Promise<void> {
  if (message.type === "input") await input.write(Buffer.from(message.data));
  else if (message.type === "resize") await guest.resize({ pid }, { columns: message.cols, rows: message.rows });
  else await send(socket, { type: "pong" });
}

/** @throws RametError `InvalidArgument` */
function parsedMessage(text: string): Message {
  try {
    return Message.parse(JSON.parse(text));
  } catch (cause) {
    throw new RametError("InvalidArgument", "A message is not valid: its type is not input, resize or ping", { cause });
  }
}

async function report(socket: WebSocket, error: unknown): Promise<void> {
  await send(socket, { type: "error", message: RametError.from(error).message });
}

/** Resolves when the kernel has the message, so that a slow reader slows down the shell. */
function send(socket: WebSocket, message: object): Promise<void> {
  return new Promise((resolve) => {
    socket.send(JSON.stringify(message), () => {
      resolve();
    });
  });
}

/** Ends the connection of a client that does not respond. @returns a function that stops it */
function heartbeat(socket: WebSocket, clock: Clock): () => void {
  let isAlive = true;
  socket.on("pong", () => {
    isAlive = true;
  });
  let cancel = (): void => undefined;
  const arm = (): void => {
    cancel = clock.schedule(heartbeatMilliseconds, () => {
      // The answer of a client that is held back is not read either.
      if (!isAlive && !socket.isPaused) {
        socket.terminate();
        return;
      }
      isAlive = false;
      socket.ping();
      arm();
    });
  };
  arm();
  return () => {
    cancel();
  };
}
