import { createWriteStream, renameSync, type WriteStream } from "node:fs";
import { mkdir, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { type Clock, delay } from "../../base/clock.ts";
import { untilWritable } from "../../base/http.ts";

const rotateAtBytes = 10 * 1024 * 1024;
/** A longer line is cut. */
export const maxLineBytes = 64 * 1024;
/**
 * The rate at which a sandbox can log, and the burst that it can log. A program that prints faster is slowed down, as by any full
 * pipe: the cell's CPU time for its output is outside of the sandbox's limit.
 */
const bytesPerSecond = 2 * 1024 * 1024;
const burstBytes = 8 * 1024 * 1024;

/**
 * The output of the sandbox's entrypoint, in the log format of container runtimes:
 * `<RFC 3339 time> stdout|stderr F <line>`. At most two files: `0.log`, and the older `0.log.1`.
 */
export class EntrypointLog {
  readonly path: string;
  readonly #clock: Clock;
  #file: WriteStream;
  #sizeBytes: number;
  #budgetBytes = burstBytes;
  /** When the budget was last refilled, on the monotonic clock. */
  #refilledAt: number;

  private constructor(path: string, sizeBytes: number, clock: Clock) {
    this.path = path;
    this.#clock = clock;
    this.#sizeBytes = sizeBytes;
    this.#refilledAt = clock.monotonicMilliseconds();
    this.#file = openFile(path);
  }

  static async open(directory: string, clock: Clock): Promise<EntrypointLog> {
    await mkdir(directory, { recursive: true });
    const path = join(directory, "0.log");
    const size = await stat(path).then(
      ({ size }) => size,
      () => 0,
    );
    return new EntrypointLog(path, size, clock);
  }

  /** Logs a stream. Resolves when the stream ends. Pauses it while the disk or the rate requires it. */
  follow(source: Readable, stream: "stdout" | "stderr", early = ""): Promise<void> {
    const lines = new LineCutter();
    const take = (chunk: Buffer): void => {
      const file = this.#write(stream, lines.take(chunk), chunk.length);
      const waits: Promise<void>[] = [];
      // A file that was rotated or has failed accepts nothing, and is closed.
      if (file.writableNeedDrain) waits.push(untilWritable(file));
      if (this.#budgetBytes < 0) waits.push(delay(this.#clock, (-this.#budgetBytes / bytesPerSecond) * 1000));
      if (waits.length === 0) return;
      source.pause();
      void Promise.all(waits).then(() => source.resume());
    };
    take(Buffer.from(early));
    source.on("data", take);
    return new Promise((resolve) => {
      source.once("close", () => {
        this.#write(stream, lines.rest(), 0);
        resolve();
      });
    });
  }

  async close(): Promise<void> {
    await new Promise<void>((resolve) => this.#file.end(resolve));
  }

  /** Returns the file that the lines are written to. `readBytes` counts too, because most of a long line is not written. */
  #write(stream: string, lines: string[], readBytes: number): WriteStream {
    const time = this.#clock.now().toISOString();
    const text = lines.map((line) => `${time} ${stream} F ${line}\n`).join("");
    const sizeBytes = Buffer.byteLength(text);
    this.#spend(Math.max(sizeBytes, readBytes));
    // A line that a full disk refuses is lost. Later lines are written if there is space again.
    if (this.#file.errored !== null) this.#file = openFile(this.path);
    const file = this.#file;
    if (sizeBytes === 0) return file;
    this.#sizeBytes += sizeBytes;
    file.write(text);
    if (this.#sizeBytes > rotateAtBytes) this.#rotate();
    return file;
  }

  #spend(bytes: number): void {
    const now = this.#clock.monotonicMilliseconds();
    const refillBytes = ((now - this.#refilledAt) / 1000) * bytesPerSecond;
    this.#refilledAt = now;
    this.#budgetBytes = Math.min(burstBytes, this.#budgetBytes + refillBytes) - bytes;
  }

  #rotate(): void {
    this.#sizeBytes = 0;
    try {
      // The full file keeps its descriptor, so queued lines are written under the new name.
      renameSync(this.path, `${this.path}.1`);
    } catch {
      return;
    }
    this.#file.end();
    this.#file = openFile(this.path);
  }
}

/** Splits chunks into lines. A line of more than `maxLineBytes` is cut, and the rest of it is dropped. */
class LineCutter {
  #held: Buffer | undefined;
  #heldBytes = 0;
  #isCut = false;

  take(chunk: Buffer): string[] {
    const end = chunk.lastIndexOf("\n");
    if (end < 0) return this.#hold(chunk);
    const complete = Buffer.concat([this.#takeHeld(), chunk.subarray(0, end)]);
    const lines = complete.toString().split("\n");
    if (this.#isCut) lines.shift();
    this.#isCut = false;
    return [...lines.map(bounded), ...this.#hold(chunk.subarray(end + 1))];
  }

  /** The last line if it has no line feed. */
  rest(): string[] {
    return this.#heldBytes === 0 ? [] : [this.#takeHeld().toString()];
  }

  /** Keeps the start of a line. Returns the line as soon as it is too long. */
  #hold(part: Buffer): string[] {
    if (this.#isCut || part.length === 0) return [];
    this.#held ??= Buffer.allocUnsafe(maxLineBytes);
    const copied = part.copy(this.#held, this.#heldBytes);
    this.#heldBytes += copied;
    if (copied === part.length) return [];
    this.#isCut = true;
    return [`${this.#takeHeld().toString()}${cutMark}`];
  }

  #takeHeld(): Buffer {
    const held = this.#held?.subarray(0, this.#heldBytes) ?? Buffer.alloc(0);
    this.#heldBytes = 0;
    return held;
  }
}

const cutMark = ` [cut after ${maxLineBytes} bytes]`;

function bounded(line: string): string {
  // A character has one to three bytes per UTF-16 unit.
  if (line.length * 3 <= maxLineBytes || Buffer.byteLength(line) <= maxLineBytes) return line;
  return `${Buffer.from(line).subarray(0, maxLineBytes).toString()}${cutMark}`;
}

function openFile(path: string): WriteStream {
  return createWriteStream(path, { flags: "a" }).on("error", () => undefined);
}
