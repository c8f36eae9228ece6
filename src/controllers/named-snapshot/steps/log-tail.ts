/** What a step prints, of much the end: both streams as they come. */
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

  /** Begins anew: the reader is told everything that is kept once more. */
  clear(): void {
    this.#chunks = [];
    this.#bytes = 0;
    this.#dropped = false;
  }

  text(): string {
    const text = Buffer.concat(this.#chunks).toString("utf8");
    // ConfigMaps and statuses hold text, and NUL is none of it.
    const clean = text.replaceAll("\0", "");
    return this.#dropped ? `(the beginning is cut off)\n${clean}` : clean;
  }
}

/** A ConfigMap holds 1 MiB, and a recipe up to a hundred steps. */
const mostBytes = 64 * 1024;
