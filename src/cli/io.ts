import type { Readable, Writable } from "node:stream";
import { text as textOf } from "node:stream/consumers";
import type { Clock } from "../base/clock.ts";
import { readText } from "../base/read-text.ts";
import { visible } from "../base/visible.ts";

/** A command's streams, environment, clock and signals. Tests pass their own. */
export interface Io {
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly stderr: Writable;
  /** Whether stderr is a terminal, so that progress is printed. */
  readonly progressIsSeen: boolean;
  /** The columns of that terminal. Absent if stderr is none. */
  readonly progressColumns?: () => number;
  /** The terminal of stdin and stdout; absent if one of them is not a terminal. */
  readonly terminal?: Terminal;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Aborted by SIGINT, SIGTERM and SIGHUP, unless `onSignal` has a listener. */
  readonly signal: AbortSignal;
  /** Passes signals to `listener` instead of aborting `signal`. @returns a function that ends that */
  takeSignals(listener: (signal: NodeJS.Signals) => void): () => void;
  readonly clock: Clock;
}

export interface Terminal {
  size(): { columns: number; rows: number };
  /** Calls `listener` after each change of the size. @returns a function that ends that */
  onResize(listener: () => void): () => void;
  /** In raw mode the reader gets all keys unchanged, including Ctrl-C. */
  setRaw(raw: boolean): void;
}

/** Writes a line, with control characters made visible. */
export function printLine(stream: Writable, line: string): void {
  stream.write(`${visible(line)}\n`);
}

/** The text of a file that the user names; `-` is stdin. @throws RametError `NotFound` */
export function readInput({ stdin }: Io, path: string): Promise<string> {
  return path === "-" ? textOf(stdin) : readText(path);
}

export function lineWriter(stream: Writable): (line: string) => void {
  return (line) => {
    printLine(stream, line);
  };
}

/** Writes and resolves when the stream accepts more. @throws the stream's error, such as `EPIPE` */
export function writeAll(stream: Writable, data: Buffer | string): Promise<void> {
  return new Promise((resolve, reject) => {
    const goesOn = stream.write(data, (error) => {
      if (error) reject(error);
      else resolve();
    });
    if (goesOn) resolve();
  });
}

/** Whether a write failed because the reader of the output has exited. */
export function isBrokenPipe(error: unknown): boolean {
  return error instanceof Error && "code" in error && brokenPipeCodes.has(error.code);
}

/** Further writes fail with the second. */
const brokenPipeCodes: ReadonlySet<unknown> = new Set(["EPIPE", "ERR_STREAM_DESTROYED"]);
