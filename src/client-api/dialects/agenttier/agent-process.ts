import { StringDecoder } from "node:string_decoder";
import { RametError } from "../../../base/errors.ts";
import type { GuestClient } from "../../../cell/client/guest-client.ts";
import type { GuestInput } from "../../../cell/client/guest-input.ts";
import type { ProcessEvent } from "../../../cell/client/guest-wire.ts";
import type { Sent } from "../../routes/sse.ts";

export interface AgentProcess {
  /** The program and its arguments. */
  argv: readonly string[];
  /** @default empty: it reads the end of its input */
  stdin?: AgentInput;
  /** The name by which it is canceled. */
  tag: string;
  timeoutMilliseconds: number;
  signal: AbortSignal;
}

/** The input of a process, which is kept until the process or the kernel has it. */
export class AgentInput {
  #bytes: Buffer;
  #stream: GuestInput | undefined;
  readonly #onSent: () => void;

  constructor(bytes: Buffer, onSent: () => void) {
    this.#bytes = bytes;
    this.#onSent = onSent;
  }

  get isEmpty(): boolean {
    return this.#bytes.length === 0;
  }

  /** Sends everything, as fast as the process reads. It may end before that, which its events report. */
  async sendTo(guest: GuestClient, pid: number): Promise<void> {
    const stream = guest.openInput({ pid });
    this.#stream = stream;
    try {
      for (let at = 0; at < this.#bytes.length; at += inputPartBytes)
        await stream.write(this.#bytes.subarray(at, at + inputPartBytes));
      await stream.end();
      await guest.closeStdin({ pid });
    } catch {
      // The process has ended.
    }
    this.#bytes = Buffer.alloc(0);
    this.#onSent();
  }

  /** Discards what the process has not read. */
  close(): void {
    this.#stream?.close();
  }
}

const inputPartBytes = 64 * 1024;

/** How a process has ended. `canceled`: by a signal. */
export interface Ended {
  exitCode: number;
  reason: "completed" | "timeout" | "canceled" | "error";
  /** The text of an error. */
  message?: string;
}

/**
 * Runs a program and yields its output line by line, then returns how it ended. It does not run longer than somebody reads.
 */
export async function* runAgent(guest: GuestClient, run: AgentProcess): AsyncGenerator<Sent, Ended> {
  const lines = { stdout: new Lines(), stderr: new Lines() };
  let isOver = false;
  try {
    const ended = yield* follow(guest, run, lines);
    isOver = true;
    yield* remainders(lines);
    return { exitCode: ended.exitCode, reason: ended.exited ? "completed" : "canceled" };
  } catch (error) {
    const { code, message } = RametError.from(error);
    isOver ||= code === "Timeout";
    yield* remainders(lines);
    return { exitCode: -1, reason: code === "Timeout" ? "timeout" : "error", message };
  } finally {
    run.stdin?.close();
    if (!isOver) await guest.signal({ tag: run.tag }, "SIGKILL").catch(() => undefined);
  }
}

async function* follow(
  guest: GuestClient,
  { argv, stdin, tag, timeoutMilliseconds, signal }: AgentProcess,
  lines: { stdout: Lines; stderr: Lines },
): AsyncGenerator<Sent, Extract<ProcessEvent, { type: "end" }>> {
  const [command = "", ...args] = argv;
  const start = { command, args, tag, stdin: stdin?.isEmpty === false, timeoutMilliseconds };
  for await (const event of guest.startProcess(start, signal)) {
    if (event.type === "end") return event;
    if (event.type === "start") {
      if (start.stdin) void stdin?.sendTo(guest, event.pid);
      continue;
    }
    const stream = event.stream === "stderr" ? "stderr" : "stdout";
    for (const data of lines[stream].add(event.data)) yield logOf(stream, data);
  }
  throw new RametError("GuestUnreachable", "The connection ended before the program", { retryable: true });
}

function logOf(stream: "stdout" | "stderr", data: string): Sent {
  return { event: "log", data: { stream, data } };
}

function* remainders(lines: { stdout: Lines; stderr: Lines }): Generator<Sent> {
  for (const stream of ["stdout", "stderr"] as const) for (const data of lines[stream].end()) yield logOf(stream, data);
}

const longestLineCharacters = 65_536;

/** Splits output into lines. A long line is split too. */
export class Lines {
  readonly #decoder = new StringDecoder("utf8");
  #begun = "";

  add(data: Buffer): string[] {
    const parts = `${this.#begun}${this.#decoder.write(data)}`.split("\n");
    this.#begun = parts.pop() ?? "";
    if (this.#begun.length > longestLineCharacters) {
      parts.push(this.#begun);
      this.#begun = "";
    }
    return parts;
  }

  end(): string[] {
    const last = `${this.#begun}${this.#decoder.end()}`;
    this.#begun = "";
    return last === "" ? [] : [last];
  }
}
