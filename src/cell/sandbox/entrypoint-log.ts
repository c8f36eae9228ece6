import { createWriteStream, renameSync, type WriteStream } from "node:fs";
import { mkdir, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";

const rotateAtBytes = 10 * 1024 * 1024;

/**
 * What the sandbox's entrypoint printed, on disk in the form that container runtimes keep it in:
 * `<RFC 3339 time> stdout|stderr F <line>`. Two files at most: `0.log`, and `0.log.1` before it.
 */
export class EntrypointLog {
  readonly path: string;
  #file: WriteStream;
  #sizeBytes: number;

  private constructor(path: string, sizeBytes: number) {
    this.path = path;
    this.#sizeBytes = sizeBytes;
    this.#file = createWriteStream(path, { flags: "a" });
  }

  static async open(directory: string): Promise<EntrypointLog> {
    await mkdir(directory, { recursive: true });
    const path = join(directory, "0.log");
    const size = await stat(path).then(
      ({ size }) => size,
      () => 0,
    );
    return new EntrypointLog(path, size);
  }

  /** Follows a stream until it ends; the promise resolves then. */
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
    const time = new Date().toISOString();
    const text = lines.map((line) => `${time} ${stream} F ${line}\n`).join("");
    this.#sizeBytes += Buffer.byteLength(text);
    this.#file.write(text);
    if (this.#sizeBytes > rotateAtBytes) this.#rotate();
  }

  #rotate(): void {
    this.#sizeBytes = 0;
    // The full file keeps its descriptor, so what is still queued for it lands under the new name.
    renameSync(this.path, `${this.path}.1`);
    this.#file.end();
    this.#file = createWriteStream(this.path, { flags: "a" });
  }
}
