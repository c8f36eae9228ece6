import { RametError } from "../base/errors.ts";
import type { Clock } from "../base/clock.ts";

export interface StaleOnErrorCacheOptions {
  clock: Clock;
  /** How long an answer holds. */
  freshMilliseconds: number;
  /** How long it goes on to hold while nobody answers. */
  staleMilliseconds: number;
}

interface Answer<T> {
  value: T;
  since: number;
  /** When to ask again. */
  askAt: number;
}

/** Answers that are dear to ask for. Whoever asks while another does is given the same one. */
export class StaleOnErrorCache<T> {
  readonly #options: StaleOnErrorCacheOptions;
  readonly #answers = new Map<string, Answer<T>>();
  readonly #asking = new Map<string, Promise<T>>();

  constructor(options: StaleOnErrorCacheOptions) {
    this.#options = options;
  }

  /** @throws what `ask` does, unless that can be mended by waiting and there is an answer that is not too old */
  async get(key: string, ask: () => Promise<T>): Promise<T> {
    const known = this.#answers.get(key);
    if (known !== undefined && this.#now() < known.askAt) return known.value;
    try {
      return await this.#ask(key, ask);
    } catch (error) {
      if (known === undefined || !RametError.from(error).retryable) throw error;
      const now = this.#now();
      if (now - known.since > this.#options.staleMilliseconds) throw error;
      // Else everybody would wait for what does not answer.
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
    const { freshMilliseconds, staleMilliseconds } = this.#options;
    const now = this.#now();
    this.#answers.delete(key);
    this.#answers.set(key, { value, since: now, askAt: now + freshMilliseconds });
    // The oldest come first.
    for (const [other, { since }] of this.#answers) {
      if (this.#answers.size <= mostAnswers && now - since <= staleMilliseconds) return;
      this.#answers.delete(other);
    }
  }

  #now(): number {
    return this.#options.clock.monotonicMilliseconds();
  }
}

const mostAnswers = 10_000;
