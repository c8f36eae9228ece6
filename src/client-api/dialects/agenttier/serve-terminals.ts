import { StringDecoder } from "node:string_decoder";
import type { FastifyInstance } from "fastify";
import * as z from "zod";
import { RametError } from "../../../base/errors.ts";
import type { GuestClient } from "../../../cell/client/guest-client.ts";
import type { GuestInput } from "../../../cell/client/guest-input.ts";
import { needs } from "../../keys/needs.ts";
import type { ClientSocket } from "../../routes/web-sockets.ts";
import { type AgentTier, guestFor, errorAnswer } from "./call.ts";

/** Serves terminals of sandboxes over WebSockets, at `/ws/terminal/<sandbox>`. Browsers send the key in the query. */
export function serveTerminals(server: FastifyInstance, agentTier: AgentTier): void {
  server.webSockets.add({
    path: /^\/ws\/terminal\/(?<id>[a-z0-9-]{1,63})$/,
    callers: agentTier.callers,
    needs: needs.enter,
    keyParameter: "token",
    open: async (call) => {
      const guest = await guestFor(agentTier, call);
      return (socket) => serveTerminal(socket, guest, call.signal);
    },
    // In plain text, as AgentTier.
    refusal: (error) => {
      const { status, body } = errorAnswer(error);
      return { status, type: "text/plain; charset=utf-8", body: `${body.error}\n` };
    },
    failure: ({ message }) => ({ type: "error", message }),
  });
}

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
async function serveTerminal(socket: ClientSocket, guest: GuestClient, signal: AbortSignal): Promise<void> {
  let opened: Session | undefined;
  const started = Promise.withResolvers<undefined>();
  socket.onMessage(async (text) => {
    await started.promise;
    if (opened !== undefined) await apply(parsedMessage(text), opened);
  });
  const decoder = new StringDecoder("utf8");
  try {
    for await (const event of guest.startProcess(shell, signal)) {
      if (event.type === "start") {
        const { pid } = event;
        opened = { socket, guest, pid, input: guest.openInput({ pid }, "pty") };
        started.resolve(undefined);
      } else if (event.type === "data")
        await socket.send({ type: "output", stream: "stdout", data: decoder.write(event.data) });
      else await socket.send({ type: "close", code: event.exitCode });
    }
  } finally {
    started.resolve(undefined);
    opened?.input.close();
    if (opened !== undefined) await guest.signal({ pid: opened.pid }, "SIGKILL").catch(() => undefined);
  }
}

interface Session {
  socket: ClientSocket;
  guest: GuestClient;
  pid: number;
  input: GuestInput;
}

async function apply(message: Message, { socket, guest, pid, input }: Session): Promise<void> {
  if (message.type === "input") await input.write(Buffer.from(message.data));
  else if (message.type === "resize") await guest.resize({ pid }, { columns: message.cols, rows: message.rows });
  else await socket.send({ type: "pong" });
}

/** @throws RametError `InvalidArgument` */
function parsedMessage(text: string): Message {
  try {
    return Message.parse(JSON.parse(text));
  } catch (cause) {
    throw new RametError("InvalidArgument", "A message is not valid: its type is not input, resize or ping", { cause });
  }
}
