/**
 * Keeps the start and the end of an output, whose middle is left out when it is too long: a program that never stops writing must
 * not fill the memory of the server, nor the context of an agent.
 */
export class LimitedOutput {
  readonly #half: number;
  readonly #start: Buffer[] = [];
  #startBytes = 0;
  #end = Buffer.alloc(0);
  #allBytes = 0;

  constructor(limitBytes: number) {
    this.#half = Math.floor(limitBytes / 2);
  }

  add(data: Buffer): void {
    this.#allBytes += data.length;
    const first = data.subarray(0, this.#half - this.#startBytes);
    if (first.length > 0) this.#start.push(first);
    this.#startBytes += first.length;
    const others = data.subarray(first.length);
    if (others.length > 0) this.#end = Buffer.concat([this.#end, others]).subarray(-this.#half);
  }

  get leftOutBytes(): number {
    return this.#allBytes - this.#startBytes - this.#end.length;
  }

  toString(): string {
    const start = Buffer.concat(this.#start);
    if (this.leftOutBytes === 0) return Buffer.concat([start, this.#end]).toString();
    return `${start.toString()}\n[${this.leftOutBytes} bytes are left out]\n${this.#end.toString()}`;
  }
}
