import type { IncomingMessage } from "node:http";
import * as z from "zod";
import { RametError } from "../../base/errors.ts";
import { boundedJson, ExitCode, guestFailure, unreachable } from "./guest-http.ts";

/** The version of E2B's envd whose API the guest serves, as native/guest/internal/envd/server.go: clients use parts of it by that. */
export const envdVersion = "0.6.13";

/** Encodes a message of a Connect stream: one byte of flags, four bytes of length (big-endian), JSON. */
export function envelope(message: unknown): Buffer {
  const body = Buffer.from(JSON.stringify(message));
  const header = Buffer.alloc(5);
  header.writeUInt32BE(body.length, 1);
  return Buffer.concat([header, body]);
}

export interface Envelope {
  /** Whether it is the last message. `body` then holds the error and the trailers, if any. */
  end: boolean;
  body: unknown;
}

const endFlag = 2;
const headerBytes = 5;
/** A guest sends output in parts of 16 KiB. */
const maxMessageBytes = 256 << 10;

/** Decodes a Connect stream. @throws RametError `GuestUnreachable` if it ends without an end message */
export async function* envelopes(stream: AsyncIterable<Buffer>): AsyncGenerator<Envelope> {
  // Chunks are joined when a message is complete: joining at each chunk would cost more with each byte of a slow sender.
  let chunks: Buffer[] = [];
  let heldBytes = 0;
  let neededBytes = headerBytes;
  for await (const chunk of stream) {
    chunks.push(chunk);
    heldBytes += chunk.length;
    if (heldBytes < neededBytes) continue;
    let held: Buffer = Buffer.concat(chunks);
    for (;;) {
      neededBytes = headerBytes;
      if (held.length < headerBytes) break;
      const length = held.readUInt32BE(1);
      if (length > maxMessageBytes) throw new RametError("Internal", `the guest sent a message of ${length} bytes`);
      neededBytes = headerBytes + length;
      if (held.length < neededBytes) break;
      const end = ((held[0] ?? 0) & endFlag) !== 0;
      yield { end, body: boundedJson(held.toString("utf8", headerBytes, neededBytes), "a message of the guest") };
      if (end) return;
      held = held.subarray(neededBytes);
    }
    chunks = [held];
    heldBytes = held.length;
  }
  throw new RametError("GuestUnreachable", "the guest's stream broke off", {
    retryable: true,
    hint: "After a checkpoint or a restore connections are cut; connect to the command again by its pid or tag",
  });
}

const bytes = z.base64().transform((text) => Buffer.from(text, "base64"));

/** An answer of process.Process/Start and /Connect; fields that are zero may be missing. */
export const ProcessAnswer = z.object({
  event: z.object({
    start: z.object({ pid: z.number().int() }).optional(),
    data: z.object({ stdout: bytes.optional(), stderr: bytes.optional(), pty: bytes.optional() }).optional(),
    end: z
      .object({
        exitCode: ExitCode.default(0),
        exited: z.boolean().default(false),
        status: z.string().default(""),
      })
      .optional(),
    keepalive: z.object({}).optional(),
  }),
});

export const StreamEnd = z.object({
  error: z.unknown().optional(),
  metadata: z.record(z.string(), z.array(z.string())).default({}),
});

export const ProcessListAnswer = z.object({
  processes: listOf(
    z.object({
      config: z.object({
        cmd: z.string().default(""),
        args: listOf(z.string()),
        envs: z.record(z.string(), z.string()).default({}),
        cwd: z.string().optional(),
      }),
      pid: z.number().int(),
      tag: z.string().optional(),
    }),
  ),
});

export const FileEntry = z.object({
  name: z.string().default(""),
  path: z.string().default(""),
  type: z
    .enum(["FILE_TYPE_UNSPECIFIED", "FILE_TYPE_FILE", "FILE_TYPE_DIRECTORY", "FILE_TYPE_SYMLINK"])
    .default("FILE_TYPE_UNSPECIFIED")
    .transform((name) => fileTypes[name]),
  /** Connect encodes int64 as a string. */
  size: z.coerce.number().default(0),
  mode: z.number().int().default(0),
  permissions: z.string().default(""),
  owner: z.string().default(""),
  group: z.string().default(""),
  /** The target of a symbolic link. Its other attributes are those of the target. */
  symlinkTarget: z.string().optional(),
  modifiedTime: z
    .string()
    .optional()
    .transform((text) => timeIn(text)),
});
export type FileEntry = z.infer<typeof FileEntry>;

/** A guest of an earlier version reports none. */
function timeIn(text: string | undefined): Date | undefined {
  const time = new Date(text ?? "");
  return Number.isNaN(time.getTime()) ? undefined : time;
}

const fileTypes = {
  FILE_TYPE_UNSPECIFIED: "other",
  FILE_TYPE_FILE: "file",
  FILE_TYPE_DIRECTORY: "directory",
  FILE_TYPE_SYMLINK: "symlink",
} as const;

export const EntryAnswer = z.object({ entry: FileEntry });
export const EntriesAnswer = z.object({ entries: listOf(FileEntry) });

/** The first item that is not valid ends the parsing: zod would collect the faults of millions. More do not fit into an answer. */
function listOf<T extends z.ZodType>(item: T) {
  return z
    .array(z.unknown())
    .max(100_000)
    .default([])
    .transform((items) => items.map((one) => item.parse(one)));
}

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
  /** Whether a process that outlives the command keeps its output open. Its later output is lost. */
  outputOpen: boolean;
}

/** Why output can be missing after the end of a command. */
export const outputOpen =
  "a process that the command started keeps it open; redirect the output of background processes";

/** Decodes a stream of Start or Connect. The end event comes last, when it is known whether output is missing. */
export async function* processEvents(
  what: string,
  open: () => Promise<IncomingMessage>,
  signal?: AbortSignal,
): AsyncGenerator<ProcessEvent> {
  let end: Omit<ProcessEnd, "missedBytes" | "outputOpen"> | undefined;
  for await (const { answer, trailers } of answers({ what, open, signal }, ProcessAnswer)) {
    if (answer !== undefined) {
      const { event } = answer;
      if (event.start !== undefined) yield { type: "start", pid: event.start.pid };
      if (event.data !== undefined) yield* dataEvents(event.data);
      if (event.end !== undefined) end = { type: "end", ...event.end, exitCode: shellCode(event.end) };
    }
    if (trailers === undefined || end === undefined) continue;
    const missedBytes = Number(trailers["ramet-missed-bytes"]?.[0] ?? 0);
    yield { ...end, missedBytes, outputOpen: trailers["ramet-output-open"] !== undefined };
  }
}

interface Answers {
  what: string;
  open: () => Promise<IncomingMessage>;
  signal: AbortSignal | undefined;
}

/** The messages of a stream, and last its trailers. @throws RametError */
async function* answers<T extends z.ZodType>({ what, open, signal }: Answers, schema: T) {
  const response = await open();
  try {
    for await (const { end, body } of envelopes(response)) {
      const { error, metadata } = end ? StreamEnd.parse(body) : {};
      if (error !== undefined) throw guestFailure(what, error);
      yield { answer: end ? undefined : schema.parse(body), trailers: metadata };
    }
  } catch (error) {
    throw unreachable(what, error, signal);
  } finally {
    response.destroy();
  }
}

const changes = ["CREATE", "WRITE", "REMOVE", "RENAME", "CHMOD"] as const;

const WatchAnswer = z.object({
  start: z.object({}).optional(),
  filesystem: z
    .object({
      name: z.string().max(8_192).default(""),
      type: z.enum(changes.map((name) => `EVENT_TYPE_${name}` as const)),
    })
    .optional(),
});

/** A change of a file, whose path is relative to the watched directory; or the start of the watch. */
export type FileEvent = { type: "start" } | { type: "create" | "write" | "remove" | "rename" | "chmod"; path: string };

/** Decodes a stream of WatchDir. */
export async function* fileEvents(
  what: string,
  open: () => Promise<IncomingMessage>,
  signal?: AbortSignal,
): AsyncGenerator<FileEvent> {
  for await (const { answer } of answers({ what, open, signal }, WatchAnswer)) {
    if (answer?.start !== undefined) yield { type: "start" };
    if (answer?.filesystem === undefined) continue;
    const type = answer.filesystem.type.slice("EVENT_TYPE_".length).toLowerCase();
    yield { type: type as Exclude<FileEvent["type"], "start">, path: answer.filesystem.name };
  }
}

type Answer = z.infer<typeof ProcessAnswer>["event"];

function* dataEvents(data: NonNullable<Answer["data"]>): Generator<ProcessEvent> {
  for (const stream of ["stdout", "stderr", "pty"] as const) {
    const bytes = data[stream];
    // Who keeps the output of a command up to a size would keep empty parts without end.
    if (bytes !== undefined && bytes.length > 0) yield { type: "data", stream, data: bytes };
  }
}

/** The guest reports -1 and the signal's description, as envd does (Go's `syscall.Signal.String`). */
function shellCode({ exitCode, exited, status }: NonNullable<Answer["end"]>): number {
  if (exited || exitCode >= 0) return exitCode;
  const name = /^signal: (.+?)(?: \(core dumped\))?$/.exec(status)?.[1] ?? "";
  return 128 + (signalNumbers.get(name) ?? Number(/^signal (\d{1,2})$/.exec(name)?.[1] ?? 0));
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
