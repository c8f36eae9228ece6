import { canceled } from "../base/clock.ts";

/**
 * Limits how many operations run concurrently, and takes turns between namespaces. The connections to the API server are scarce,
 * and a namespace with a thousand waiting claims delays another one's by only one turn.
 */
export class FairTurns {
  readonly #limit: number;
  /** The waiting operations of each namespace, in the order of their next turns. */
  readonly #lines = new Map<string, Set<() => void>>();
  #running = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** @throws RametError `Canceled` if `signal` is aborted before the turn; running work is not interrupted */
  async run<T>(namespace: string, work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    await this.#turn(namespace, signal);
    try {
      return await work();
    } finally {
      this.#running--;
      this.#next();
    }
  }

  #turn(namespace: string, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(canceled("Waiting for a turn", signal));
        return;
      }
      const line = this.#lines.get(namespace) ?? new Set();
      this.#lines.set(namespace, line);
      const begin = (): void => {
        signal.removeEventListener("abort", onAbort);
        resolve();
      };
      const onAbort = (): void => {
        line.delete(begin);
        reject(canceled("Waiting for a turn", signal));
      };
      signal.addEventListener("abort", onAbort, { once: true });
      line.add(begin);
      this.#next();
    });
  }

  #next(): void {
    while (this.#running < this.#limit) {
      const [first] = this.#lines;
      if (first === undefined) return;
      const [namespace, line] = first;
      // The namespace whose turn it is moves to the end.
      this.#lines.delete(namespace);
      const [begin] = line;
      if (begin === undefined) continue;
      line.delete(begin);
      if (line.size > 0) this.#lines.set(namespace, line);
      this.#running++;
      begin();
    }
  }
}
