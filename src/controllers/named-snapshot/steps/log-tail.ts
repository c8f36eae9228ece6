/** The end of the output of a step, both streams in the order of arrival. */
export class LogTail {
  #chunks: Buffer[] = [];
  #bytes = 0;
  #dropped = false;

  add(data: Buffer): void {
    this.#chunks.push(data);
    this.#bytes += data.length;
    while (this.#bytes - (this.#chunks[0]?.length ?? 0) >= mostBytes) {
      this.#bytes -= this.#chunks.shift()?.length ?? 0;
      this.#dropped = true;
    }
  }

  /** Called when a connection is made again: the guest then sends all kept output once more. */
  clear(): void {
    this.#chunks = [];
    this.#bytes = 0;
    this.#dropped = false;
  }

  text(): string {
    const text = Buffer.concat(this.#chunks).toString("utf8");
    // ConfigMaps and statuses cannot hold NUL.
    const clean = text.replaceAll("\0", "");
    return this.#dropped ? `(earlier output was truncated)\n${clean}` : clean;
  }
}

/** A ConfigMap holds 1 MiB, and a recipe has up to 100 steps. */
const mostBytes = 64 * 1024;
