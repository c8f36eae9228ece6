import type { ChildProcessWithoutNullStreams } from "node:child_process";
import { type Socket, connect } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Duplex } from "node:stream";
import * as z from "zod";
import { EgressReport } from "../../api/wire/cell-api.ts";
import { onAbort } from "../../base/clock.ts";
import { type ErrorCode, errorCodes } from "../../base/error-codes.ts";
import { RametError } from "../../base/errors.ts";

/** The JSON lines that the cell and its link exchange over the child's stdin and stdout. */
export class LinkLines {
  /** Resolves with the path of the sandbox's network namespace when it exists. Rejects if the start fails. */
  readonly netns: Promise<string>;
  /** Resolves when the network is ready. Rejects if the start fails. */
  readonly ready: Promise<undefined>;
  /** Resolves with the reason when link has exited. */
  readonly closed: Promise<string>;
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #pending = new Map<number, PromiseWithResolvers<LinkAnswer>>();
  readonly #netns = Promise.withResolvers<string>();
  readonly #ready = Promise.withResolvers<undefined>();
  #ended: RametError | undefined;
  #lastLine = "";
  #stopped = false;
  #nextId = 1;

  constructor(child: ChildProcessWithoutNullStreams, log: ((line: string) => void) | undefined) {
    this.#child = child;
    child.stdin.on("error", () => undefined); // `closed` reports the exit of link
    createInterface(child.stderr).on("line", (line) => {
      this.#lastLine = line;
      log?.(line);
    });
    createInterface(child.stdout).on("line", (line) => {
      this.#receive(line);
    });
    this.netns = this.#netns.promise;
    this.ready = this.#ready.promise;
    // Until they are awaited, a failure must not count as unhandled.
    for (const start of [this.netns, this.ready]) start.catch(() => undefined);
    this.closed = this.#end().then((ended) => {
      this.#failStart(ended);
      return ended.message;
    });
  }

  write(value: object): void {
    this.#child.stdin.write(`${JSON.stringify(value)}\n`);
  }

  /** @throws RametError from link; `Unavailable` if link has exited */
  async request(body: object): Promise<LinkAnswer> {
    if (this.#ended !== undefined) throw this.#ended;
    const id = this.#nextId++;
    const answer = Promise.withResolvers<LinkAnswer>();
    this.#pending.set(id, answer);
    this.write({ id, ...body });
    return answer.promise;
  }

  /** Closes link's input, which makes it exit. */
  end(): void {
    this.#stopped = true;
    this.#child.stdin.end();
  }

  #receive(line: string): void {
    const parsed = JsonLine.pipe(z.union([LinkEvent, LinkAnswer])).safeParse(line);
    if (!parsed.success) this.#failStart(RametError.from(parsed.error, "link sent an invalid line"));
    else if ("event" in parsed.data) this.#receiveEvent(parsed.data);
    else this.#receiveAnswer(parsed.data);
  }

  #receiveEvent(event: LinkEvent): void {
    if (event.event === "made") this.#netns.resolve(event.netns);
    else if (event.event === "ready") this.#ready.resolve(undefined);
    else this.#failStart(linkError(event));
  }

  #failStart(error: RametError): void {
    this.#netns.reject(error);
    this.#ready.reject(error);
  }

  #receiveAnswer(answer: LinkAnswer): void {
    const { id, error } = answer;
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    if (error === undefined) pending?.resolve(answer);
    else pending?.reject(linkError(error));
  }

  async #end(): Promise<RametError> {
    const ended = await new Promise<RametError>((resolve) => {
      this.#child.once("error", (cause) => {
        const hint = "Build native/link, or set RAMET_LINK to its path";
        resolve(new RametError("ToolMissing", `starting ramet-link failed: ${cause.message}`, { cause, hint }));
      });
      this.#child.once("close", (code, signal) => {
        resolve(new RametError("Unavailable", this.#reason(code, signal)));
      });
    });
    this.#ended = ended;
    for (const pending of this.#pending.values()) pending.reject(ended);
    this.#pending.clear();
    return ended;
  }

  #reason(code: number | null, signal: NodeJS.Signals | null): string {
    if (this.#stopped) return "link was stopped";
    const how = signal === null ? `with code ${String(code)}` : `on ${signal}`;
    return `link exited ${how}${this.#lastLine === "" ? "" : `: ${this.#lastLine}`}`;
  }
}

const JsonLine = z.string().transform((line, context): unknown => {
  try {
    return JSON.parse(line);
  } catch {
    context.addIssue({ code: "custom", message: `not JSON: ${line.slice(0, 200)}` });
    return z.NEVER;
  }
});

const LinkFault = z.object({ code: z.string(), message: z.string(), hint: z.string().optional() });
type LinkFault = z.infer<typeof LinkFault>;

/** The events of link's start: its namespaces exist (`made`), the network is ready, or the start has failed. */
const LinkEvent = z.discriminatedUnion("event", [
  z.object({ event: z.literal("made"), netns: z.string().startsWith("/proc/") }),
  z.object({ event: z.literal("ready") }),
  LinkFault.extend({ event: z.literal("error") }),
]);
type LinkEvent = z.infer<typeof LinkEvent>;

/** Each later line: the response to a request. */
const LinkAnswer = z.object({
  id: z.number().int(),
  ok: z.literal(true).optional(),
  report: EgressReport.optional(),
  /** PEM of link's CA, if it has one. */
  certificate: z.string().optional(),
  error: LinkFault.optional(),
});
type LinkAnswer = z.infer<typeof LinkAnswer>;

/** The first line that link sends on a connection to its socket. */
const LinkDialAnswer = z.object({ ok: z.literal(true).optional(), error: LinkFault.optional() });
type LinkDialAnswer = z.infer<typeof LinkDialAnswer>;

function linkError(fault: LinkFault): RametError {
  const code = isErrorCode(fault.code) ? fault.code : "Internal";
  const retryable = code === "Unavailable" || code === "SandboxNotReady";
  return new RametError(code, fault.message, { retryable, hint: fault.hint === "" ? undefined : fault.hint });
}

function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(errorCodes, code);
}

/** The path of link's Unix socket. */
export function linkSocket(directory: string): string {
  return join(directory, "link.sock");
}

export interface DialOptions {
  /** A connection of the cell: it also works while the gate is closed, and can reach the guest's control port. */
  control?: boolean;
  signal?: AbortSignal;
}

/**
 * Connects to a port of the sandbox through link's Unix socket.
 *
 * @throws RametError from link; `Unavailable` if link has exited; `Canceled`
 */
export async function dialLink(path: string, port: number, options: DialOptions = {}): Promise<Duplex> {
  const { control = false, signal } = options;
  if (signal?.aborted === true) throw canceled(port);
  const socket = connect({ path, allowHalfOpen: true });
  const stop = signal && onAbort(signal, () => socket.destroy(canceled(port)));
  try {
    socket.write(`${JSON.stringify({ port, control })}\n`);
    const answer = JsonLine.pipe(LinkDialAnswer).parse(await firstLine(socket));
    if (answer.error !== undefined) throw linkError(answer.error);
    return socket;
  } catch (error) {
    socket.destroy();
    if (error instanceof RametError) throw error;
    const why = error instanceof Error ? error.message : String(error);
    throw new RametError("Unavailable", `connecting to port ${port} of the sandbox failed: ${why}`, { cause: error });
  } finally {
    stop?.();
  }
}

/** Every response of link is shorter than this. */
const maxLineBytes = 4096;

/** Reads up to the first line feed and leaves the rest in the stream. */
async function firstLine(socket: Socket): Promise<string> {
  let read = Buffer.alloc(0);
  for await (const chunk of socket.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    read = Buffer.concat([read, chunk]);
    const end = read.indexOf("\n");
    if (end >= 0) {
      socket.unshift(read.subarray(end + 1));
      return read.toString("utf8", 0, end);
    }
    if (read.length > maxLineBytes) throw new Error("link sent no line");
  }
  throw new Error("link closed the connection");
}

function canceled(port: number): RametError {
  return new RametError("Canceled", `connecting to port ${port} of the sandbox was aborted`);
}
