import { StringDecoder } from "node:string_decoder";
import type { WebSocket } from "ws";
import * as z from "zod";
import type { Clock } from "../../../base/clock.ts";
import { RametError } from "../../../base/errors.ts";
import type { GuestClient } from "../../../cell/client/guest-client.ts";
import type { GuestInput } from "../../../cell/client/guest-input.ts";

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

/** Connects a WebSocket with a new shell of a sandbox, until either of them ends. */
export async function serveTerminal(socket: WebSocket, guest: GuestClient, clock: Clock): Promise<void> {
  const closed = new AbortController();
  let opened: { pid: number; input: GuestInput } | undefined;
  // Messages before the shell has started, and after each other.
  const started = Promise.withResolvers<{ pid: number; input: GuestInput } | undefined>();
  let handled: Promise<unknown> = started.promise;
  socket.on("message", (data) => {
    handled = handled.then(() => handle(String(data as Buffer))).catch((error: unknown) => report(socket, error));
  });
  socket.once("close", () => {
    closed.abort();
    started.resolve(undefined);
  });
  socket.on("error", () => {
    socket.terminate();
  });
  const handle = async (text: string): Promise<void> => {
    if (opened === undefined) return;
    await apply(parsedMessage(text), { socket, guest, ...opened });
  };
  const stopHeartbeat = heartbeat(socket, clock);
  const decoder = new StringDecoder("utf8");
  try {
    for await (const event of guest.startProcess(shell, closed.signal)) {
      if (event.type === "start") {
        opened = { pid: event.pid, input: guest.openInput({ pid: event.pid }, "pty") };
        started.resolve(opened);
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
      if (!isAlive) {
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
