import { canceled } from "./clock.ts";

/**
 * Limits how many operations run concurrently, and takes turns between namespaces. The connections to the API server are scarce,
 * and a namespace with a thousand waiting claims delays another one's by only one turn.
 */
export class FairTurns {
  readonly #limit: number;
  readonly #limitOf: (namespace: string) => number;
  /** The running operations of each namespace. */
  readonly #runningOf = new Map<string, number>();
  /** The waiting operations of each namespace, in the order of their next turns. */
  readonly #lines = new Map<string, Set<() => void>>();
  #running = 0;

  /** @param limitOf the limit of one namespace; read at each turn. @default none */
  constructor(limit: number, limitOf: (namespace: string) => number = () => Infinity) {
    this.#limit = limit;
    this.#limitOf = limitOf;
  }

  /** How many operations of a namespace run. */
  runningOf(namespace: string): number {
    return this.#runningOf.get(namespace) ?? 0;
  }

  /**
   * @param onWait called immediately if the turn comes only later
   * @throws RametError `Canceled` if `signal` is aborted before the turn; running work is not interrupted
   */
  async run<T>(namespace: string, work: () => Promise<T>, signal: AbortSignal, onWait?: () => void): Promise<T> {
    await this.#turn(namespace, signal, onWait);
    try {
      return await work();
    } finally {
      this.#running--;
      const left = this.runningOf(namespace) - 1;
      if (left > 0) this.#runningOf.set(namespace, left);
      else this.#runningOf.delete(namespace);
      this.#next();
    }
  }

  /** Starts what a raised limit of a namespace allows. */
  limitChanged(): void {
    this.#next();
  }

  #turn(namespace: string, signal: AbortSignal, onWait?: () => void): Promise<void> {
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
      if (line.has(begin)) onWait?.();
    });
  }

  #next(): void {
    while (this.#running < this.#limit) {
      const first = [...this.#lines].find(([namespace]) => this.runningOf(namespace) < this.#limitOf(namespace));
      if (first === undefined) return;
      const [namespace, line] = first;
      // The namespace whose turn it is moves to the end.
      this.#lines.delete(namespace);
      const [begin] = line;
      if (begin === undefined) continue;
      line.delete(begin);
      if (line.size > 0) this.#lines.set(namespace, line);
      this.#running++;
      this.#runningOf.set(namespace, this.runningOf(namespace) + 1);
      begin();
    }
  }
}
