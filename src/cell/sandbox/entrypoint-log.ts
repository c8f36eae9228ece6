import { createWriteStream, renameSync, type WriteStream } from "node:fs";
import { mkdir, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import type { Clock } from "../../base/clock.ts";

const rotateAtBytes = 10 * 1024 * 1024;

/**
 * The output of the sandbox's entrypoint, in the log format of container runtimes:
 * `<RFC 3339 time> stdout|stderr F <line>`. At most two files: `0.log`, and the older `0.log.1`.
 */
export class EntrypointLog {
  readonly path: string;
  readonly #clock: Clock;
  #file: WriteStream;
  #sizeBytes: number;

  private constructor(path: string, sizeBytes: number, clock: Clock) {
    this.path = path;
    this.#clock = clock;
    this.#sizeBytes = sizeBytes;
    this.#file = createWriteStream(path, { flags: "a" });
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

  /** Logs a stream. Resolves when the stream ends. */
  follow(source: Readable, stream: "stdout" | "stderr", early = ""): Promise<void> {
    let rest = early;
    const take = (chunk: Buffer | string): void => {
      const lines = (rest + chunk.toString()).split("\n");
      rest = lines.pop() ?? "";
      if (lines.length > 0) this.#write(stream, lines);
    };
    take("");
    source.on("data", take);
    return new Promise((resolve) => {
      source.once("close", () => {
        if (rest !== "") this.#write(stream, [rest]);
        resolve();
      });
    });
  }

  async close(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#file.end(resolve);
    });
  }

  #write(stream: string, lines: string[]): void {
    const time = this.#clock.now().toISOString();
    const text = lines.map((line) => `${time} ${stream} F ${line}\n`).join("");
    this.#sizeBytes += Buffer.byteLength(text);
    this.#file.write(text);
    if (this.#sizeBytes > rotateAtBytes) this.#rotate();
  }

  #rotate(): void {
    this.#sizeBytes = 0;
    // The full file keeps its descriptor, so queued lines are written under the new name.
    renameSync(this.path, `${this.path}.1`);
    this.#file.end();
    this.#file = createWriteStream(this.path, { flags: "a" });
  }
}
