import { PassThrough, Writable, type Readable } from "node:stream";
import { systemClock, type Clock } from "../../src/base/clock.ts";
import type { Io, Terminal } from "../../src/cli/io.ts";

export interface MemoryIoOptions {
  stdin?: Readable;
  environment?: Record<string, string | undefined>;
  progressIsSeen?: boolean;
  terminal?: Terminal;
  clock?: Clock;
}

/** An io for tests: stores the output in memory, and takes signals from `interrupt`. */
export interface MemoryIo extends Io {
  written(stream: "stdout" | "stderr"): string;
  /** Sends a signal as a user would. */
  interrupt(signal?: NodeJS.Signals): void;
}

export function memoryIo(options: MemoryIoOptions = {}): MemoryIo {
  const kept = { stdout: "", stderr: "" };
  const keep = (name: keyof typeof kept): Writable =>
    new Writable({
      write(chunk: Buffer, _encoding, done) {
        kept[name] += chunk.toString();
        done();
      },
    });
  const aborter = new AbortController();
  let taker: ((signal: NodeJS.Signals) => void) | undefined;
  return {
    stdin: options.stdin ?? new PassThrough().end(),
    stdout: keep("stdout"),
    stderr: keep("stderr"),
    progressIsSeen: options.progressIsSeen ?? false,
    ...(options.terminal === undefined ? {} : { terminal: options.terminal }),
    environment: options.environment ?? {},
    signal: aborter.signal,
    takeSignals(listener) {
      taker = listener;
      return () => {
        taker = undefined;
      };
    },
    clock: options.clock ?? systemClock,
    written: (stream) => kept[stream],
    interrupt: (signal = "SIGINT") => {
      if (taker === undefined) aborter.abort();
      else taker(signal);
    },
  };
}
