import type { Readable, Writable } from "node:stream";
import type { Clock } from "../base/clock.ts";

/** The outside of a command: what it reads and writes, and how it hears of Ctrl-C. Tests pass their own. */
export interface Io {
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly stderr: Writable;
  /** Whether a person watches stderr: progress is for people. */
  readonly progressIsSeen: boolean;
  /** The terminal that stdin and stdout are; absent when one of them is none. */
  readonly terminal?: Terminal;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** Aborted by SIGINT, SIGTERM and SIGHUP, unless somebody takes the signals. */
  readonly signal: AbortSignal;
  /** Gives signals to `listener` instead of aborting `signal`, until the function that is returned is called. */
  takeSignals(listener: (signal: NodeJS.Signals) => void): () => void;
  readonly clock: Clock;
}

export interface Terminal {
  size(): { columns: number; rows: number };
  /** Calls `listener` after each change of the size, until the function that is returned is called. */
  onResize(listener: () => void): () => void;
  /** Raw: keys go to the reader as they are, Ctrl-C too. */
  setRaw(raw: boolean): void;
}

/** Writes a line. */
export function printLine(stream: Writable, line: string): void {
  stream.write(`${line}\n`);
}

/** Writes, and waits while the reader is slow. @throws what the stream fails with, such as `EPIPE` */
export function writeAll(stream: Writable, data: Buffer | string): Promise<void> {
  return new Promise((resolve, reject) => {
    const goesOn = stream.write(data, (error) => {
      if (error) reject(error);
      else resolve();
    });
    if (goesOn) resolve();
  });
}

/** Whether a write failed because whoever read our output went away. */
export function isBrokenPipe(error: unknown): boolean {
  return error instanceof Error && "code" in error && brokenPipeCodes.has(error.code);
}

/** The second is what comes of further writes. */
const brokenPipeCodes: ReadonlySet<unknown> = new Set(["EPIPE", "ERR_STREAM_DESTROYED"]);
