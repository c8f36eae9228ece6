import type { IncomingMessage } from "node:http";
import type * as z from "zod";
import { guestFailure, unreachable } from "./guest-http.ts";
import { envelopes, ProcessAnswer, StreamEnd } from "./guest-wire.ts";

export type ProcessEvent =
  { type: "start"; pid: number } | { type: "data"; stream: "stdout" | "stderr" | "pty"; data: Buffer } | ProcessEnd;

interface ProcessEnd {
  type: "end";
  /** As in a shell: 128 plus the signal's number for a command that a signal killed. */
  exitCode: number;
  /** Whether the command exited, in contrast to being killed. */
  exited: boolean;
  /** A text such as `exit status 1` or `signal: killed`. */
  status: string;
  /** The size of the output that was discarded before this client connected. */
  missedBytes: number;
}

/** Decodes a stream of Start or Connect. The end event comes last, when it is known whether output was missed. */
export async function* processEvents(
  what: string,
  open: () => Promise<IncomingMessage>,
  signal?: AbortSignal,
): AsyncGenerator<ProcessEvent> {
  let end: Omit<ProcessEnd, "missedBytes"> | undefined;
  const response = await open();
  try {
    for await (const message of envelopes(response)) {
      if (message.end) {
        const { error, metadata } = StreamEnd.parse(message.body);
        if (error !== undefined) throw guestFailure(what, error);
        if (end !== undefined) yield { ...end, missedBytes: Number(metadata["ramet-missed-bytes"]?.[0] ?? 0) };
        return;
      }
      const { event } = ProcessAnswer.parse(message.body);
      if (event.start !== undefined) yield { type: "start", pid: event.start.pid };
      if (event.data !== undefined) yield* dataEvents(event.data);
      if (event.end !== undefined) end = { type: "end", ...event.end, exitCode: shellCode(event.end) };
    }
  } catch (error) {
    throw unreachable(what, error, signal);
  } finally {
    response.destroy();
  }
}

type Answer = z.infer<typeof ProcessAnswer>["event"];

function* dataEvents(data: NonNullable<Answer["data"]>): Generator<ProcessEvent> {
  for (const stream of ["stdout", "stderr", "pty"] as const) {
    const bytes = data[stream];
    if (bytes !== undefined) yield { type: "data", stream, data: bytes };
  }
}

/** The guest reports -1 and the signal's description, as envd does (Go's `syscall.Signal.String`). */
function shellCode({ exitCode, exited, status }: NonNullable<Answer["end"]>): number {
  if (exited || exitCode >= 0) return exitCode;
  const name = /^signal: (.+?)(?: \(core dumped\))?$/.exec(status)?.[1] ?? "";
  return 128 + (signalNumbers.get(name) ?? Number(/^signal (\d+)$/.exec(name)?.[1] ?? 0));
}

const signalNumbers = new Map([
  ["hangup", 1],
  ["interrupt", 2],
  ["quit", 3],
  ["illegal instruction", 4],
  ["trace/breakpoint trap", 5],
  ["aborted", 6],
  ["bus error", 7],
  ["floating point exception", 8],
  ["killed", 9],
  ["user defined signal 1", 10],
  ["segmentation fault", 11],
  ["user defined signal 2", 12],
  ["broken pipe", 13],
  ["alarm clock", 14],
  ["terminated", 15],
]);
