import { RametError } from "./errors.ts";
import type { Clock } from "./clock.ts";

export interface StaleOnErrorCacheOptions<T> {
  clock: Clock;
  /** How long an answer is valid. */
  freshMilliseconds: number;
  /** How long an answer is used while the server does not respond. */
  staleMilliseconds: number;
  /** Refusals have less room of their own, so that they never replace other answers. */
  isRefusal: (value: T) => boolean;
}

interface Answer<T> {
  value: T;
  since: number;
  /** When to ask the server again. */
  askAt: number;
}

/** Caches expensive answers. Concurrent calls for the same key share one request. */
export class StaleOnErrorCache<T> {
  readonly #options: StaleOnErrorCacheOptions<T>;
  readonly #answers = new Map<string, Answer<T>>();
  readonly #refusals = new Map<string, Answer<T>>();
  readonly #asking = new Map<string, Promise<T>>();

  constructor(options: StaleOnErrorCacheOptions<T>) {
    this.#options = options;
  }

  /** @throws what `ask` throws, unless the error is retryable and a recent enough answer is cached */
  async get(key: string, ask: () => Promise<T>): Promise<T> {
    const known = this.#answers.get(key) ?? this.#refusals.get(key);
    if (known !== undefined && this.#now() < known.askAt) return known.value;
    try {
      return await this.#ask(key, ask);
    } catch (error) {
      if (known === undefined || !RametError.from(error).retryable) throw error;
      const now = this.#now();
      if (now - known.since > this.#options.staleMilliseconds) throw error;
      // Otherwise every caller would wait for a server that does not respond.
      known.askAt = now + this.#options.freshMilliseconds;
      return known.value;
    }
  }

  #ask(key: string, ask: () => Promise<T>): Promise<T> {
    const asked = this.#asking.get(key);
    if (asked !== undefined) return asked;
    const answer = ask()
      .then((value) => {
        this.#keep(key, value);
        return value;
      })
      .finally(() => this.#asking.delete(key));
    this.#asking.set(key, answer);
    return answer;
  }

  #keep(key: string, value: T): void {
    const { freshMilliseconds, staleMilliseconds, isRefusal } = this.#options;
    const now = this.#now();
    this.#answers.delete(key);
    this.#refusals.delete(key);
    const [kept, most] = isRefusal(value) ? [this.#refusals, maximumRefusals] : [this.#answers, maximumAnswers];
    kept.set(key, { value, since: now, askAt: now + freshMilliseconds });
    // A Map iterates in insertion order: the oldest answers come first.
    for (const [other, { since }] of kept) {
      if (kept.size <= most && now - since <= staleMilliseconds) return;
      kept.delete(other);
    }
  }

  #now(): number {
    return this.#options.clock.monotonicMilliseconds();
  }
}

const maximumAnswers = 10_000;
const maximumRefusals = 1_000;
