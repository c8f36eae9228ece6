import { randomUUID } from "node:crypto";
import { posix } from "node:path";
import { StringDecoder } from "node:string_decoder";
import * as z from "zod";
import { RametError } from "../../../base/errors.ts";
import type { GuestClient } from "../../../cell/client/guest-client.ts";
import { needs } from "../../keys/needs.ts";
import { type ClientSocket, jsonRefusal, type ServeSocket, type WebSocketPath } from "../../routes/web-sockets.ts";
import { errorAnswer, guestFor, olderPrefix, prefix, type Sandbox0 } from "./call.ts";
import { readId, sendInput, sendSignal } from "./contexts.ts";
import { printedBy } from "./repl.ts";
import { Path, Size } from "./schemas.ts";

/** The WebSockets of contexts and of watches. Their routes answer requests that are none. */
export function sandbox0Sockets(sandbox0: Sandbox0): WebSocketPath[] {
  const socket = (rest: string, serve: (guest: GuestClient, opened: Opened) => ServeSocket): WebSocketPath => ({
    path: new RegExp(`^(?:${olderPrefix}|${prefix})/api/v1/sandboxes/(?<id>[^/]+)/${rest}$`),
    callers: sandbox0.callers,
    needs: needs.enter,
    open: async (call) => {
      const { ctx = "" } = call.params;
      return serve(await guestFor(sandbox0, call), { ctx, signal: call.signal });
    },
    refusal: (error) => jsonRefusal(errorAnswer(error)),
    failure: ({ message, code }) => ({ type: "error", error: message, code }),
  });
  return [socket("contexts/(?<ctx>[^/]+)/ws", contextSocket), socket("files/watch", watchSocket)];
}

interface Opened {
  ctx: string;
  signal: AbortSignal;
}

const Control = z.discriminatedUnion("type", [
  z.looseObject({ type: z.literal("input"), data: z.string().default(""), request_id: z.string().max(200).optional() }),
  z.looseObject({ type: z.literal("resize"), rows: Size, cols: Size }),
  z.looseObject({ type: z.literal("signal"), signal: z.string().max(16) }),
]);

/** Connects a client with a context: its output so far, then new output, then its end. The context stays when the client leaves. */
function contextSocket(guest: GuestClient, { ctx: tag, signal }: Opened): ServeSocket {
  const { type } = readId(tag);
  return async (socket) => {
    const code = new CodeQueue(socket, guest, { tag, signal });
    socket.onMessage(async (text) => {
      const message = parsed(Control, text);
      if (message.type === "resize") await guest.resize({ tag }, { rows: message.rows, columns: message.cols });
      else if (message.type === "signal") await sendSignal(guest, tag, message.signal);
      else if (type === "repl") code.add(message);
      else await sendInput(guest, tag, message.data);
    });
    const decoders = { stdout: new StringDecoder(), stderr: new StringDecoder(), pty: new StringDecoder() };
    for await (const event of guest.connect({ tag }, signal)) {
      if (event.type === "end") await socket.send({ type: "done", exit_code: event.exitCode, state: "completed" });
      // A REPL prints marks around the output of each execution.
      else if (event.type === "data" && type !== "repl")
        await socket.send({ type: "output", source: event.stream, data: decoders[event.stream].write(event.data) });
    }
  };
}

type Input = Extract<z.infer<typeof Control>, { type: "input" }>;

/** Runs the code of a client in a REPL, one input after another. Its signals do not wait for that. */
class CodeQueue {
  readonly #socket: ClientSocket;
  readonly #guest: GuestClient;
  readonly #repl: { tag: string; signal: AbortSignal };
  #waiting = 0;
  #last = Promise.resolve();

  constructor(socket: ClientSocket, guest: GuestClient, repl: { tag: string; signal: AbortSignal }) {
    this.#socket = socket;
    this.#guest = guest;
    this.#repl = repl;
  }

  /** @throws RametError `TooManyRequests` */
  add(input: Input): void {
    if (this.#waiting === mostWaiting)
      throw new RametError("TooManyRequests", `${mostWaiting} inputs wait for the end of an execution`);
    this.#waiting++;
    const release = this.#socket.keep(input.data.length);
    this.#last = this.#last
      .then(() => this.#run(input))
      .catch((error: unknown) => this.#socket.report(error))
      .finally(() => {
        this.#waiting--;
        release();
      });
  }

  async #run({ data: code, request_id: id }: Input): Promise<void> {
    const decoder = new StringDecoder();
    for await (const part of printedBy(this.#guest, { ...this.#repl, code }))
      if ("bytes" in part)
        await this.#socket.send({ type: "output", source: "stdout", data: decoder.write(part.bytes) });
    // Without an id, clients would understand the end of the context.
    if (id !== undefined) await this.#socket.send({ type: "done", request_id: id });
  }
}

const mostWaiting = 16;

const Watch = z.discriminatedUnion("action", [
  z.looseObject({ action: z.literal("subscribe"), path: Path, recursive: z.boolean().default(false) }),
  z.looseObject({ action: z.literal("unsubscribe"), watch_id: z.string().max(64) }),
]);

const mostWatches = 16;

/** Reports the changes of the directories that a client subscribes to. The connection ends with a watch that loses changes. */
function watchSocket(guest: GuestClient, { signal }: Opened): ServeSocket {
  return (socket) =>
    new Promise((resolve, reject) => {
      const watches = new Map<string, AbortController>();
      const end = (): void => {
        for (const watch of watches.values()) watch.abort();
        resolve();
      };
      signal.addEventListener("abort", end);
      if (signal.aborted) end();
      socket.onMessage(async (text) => {
        // What the client has sent before it left.
        if (signal.aborted) return;
        const message = parsed(Watch, text);
        if (message.action === "unsubscribe") {
          const { watch_id: id } = message;
          watches.get(id)?.abort();
          if (watches.delete(id)) await socket.send({ type: "unsubscribed", watch_id: id });
          return;
        }
        if (watches.size === mostWatches)
          throw new RametError("TooManyRequests", `A connection may watch ${mostWatches} directories`);
        const [id, watch] = [randomUUID(), new AbortController()];
        watches.set(id, watch);
        const { path, recursive } = message;
        const events = guest.watch(path, recursive, watch.signal);
        try {
          await events.next();
        } catch (error) {
          watches.delete(id);
          throw error;
        }
        await socket.send({ type: "subscribed", watch_id: id, path });
        const report = async (): Promise<void> => {
          for await (const { type: event, ...change } of events)
            if ("path" in change)
              await socket.send({ type: "event", watch_id: id, event, path: posix.join(path, change.path) });
        };
        report().catch((error: unknown) => {
          if (watch.signal.aborted) return;
          reject(RametError.from(error));
          end();
        });
      });
    });
}

/** @throws RametError `InvalidArgument` */
function parsed<T extends z.ZodType>(schema: T, text: string): z.output<T> {
  try {
    return schema.parse(JSON.parse(text));
  } catch (cause) {
    throw new RametError("InvalidArgument", "A message is not valid", { cause });
  }
}
