import { canceled } from "../base/clock.ts";

/**
 * Lets so many pieces of work run at once, and hands the turns round between namespaces: what is scarce is the process' way to
 * the API server, and a namespace with a thousand claims in line delays another one's by one turn.
 */
export class FairTurns {
  readonly #limit: number;
  /** By namespace, in the order of their next turns. */
  readonly #lines = new Map<string, Set<() => void>>();
  #running = 0;

  constructor(limit: number) {
    this.#limit = limit;
  }

  /** @throws RametError `Canceled` if `signal` is aborted before the turn came; work that has begun is not disturbed */
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
      // Whose turn this is goes to the end of the round.
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
