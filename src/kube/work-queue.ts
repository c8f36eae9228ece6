import { type BackoffOptions, type Clock, backoffMilliseconds } from "../base/clock.ts";

/** Receives the state of a queue. */
export interface QueueMetrics {
  depth(waiting: number): void;
  /** How long a key waited until a worker took it. */
  waited(milliseconds: number): void;
  /** How long a worker processed a key. */
  worked(milliseconds: number): void;
  /** A key was requeued because its work failed. */
  retried(): void;
}

export interface WorkQueueOptions {
  clock: Clock;
  random?: () => number;
  /** For `retry`. @default from 50 ms, doubling to 5 min */
  backoff?: BackoffOptions;
  metrics?: QueueMetrics;
}

export type IsSatisfied = () => boolean;

/** A key that a worker has taken, until it calls `done`. */
export interface QueueItem {
  key: string;
  done(): void;
}

/**
 * Keys that need work. A key waits at most once, however often it is added. While a worker has it, no other worker gets it; if it
 * is added meanwhile, it waits again once that worker is done.
 */
export class WorkQueue {
  readonly #options: WorkQueueOptions;
  readonly #backoff: BackoffOptions;
  /** Keys that wait, in order, with the instant since when. */
  readonly #waiting = new Map<string, number>();
  /** Keys that workers have, in the order in which they took them, with the instant since when. */
  readonly #processing = new Map<string, number>();
  /** When a worker last took a key or finished one. */
  #lastProgressAt = 0;
  /** Keys that were added while a worker had them, with the checks that can make these additions unnecessary. */
  readonly #dirty = new Map<string, IsSatisfied[]>();
  readonly #delayed = new Map<string, { at: number; cancel: () => void }>();
  readonly #failures = new Map<string, number>();
  readonly #takers: ((item: QueueItem | undefined) => void)[] = [];
  readonly #idle: (() => void)[] = [];
  #shut = false;

  constructor(options: WorkQueueOptions) {
    this.#options = options;
    this.#backoff = options.backoff ?? { baseMilliseconds: 50, maxMilliseconds: 300_000 };
  }

  /** The number of waiting keys, without delayed ones. */
  get depth(): number {
    return this.#waiting.size;
  }

  /** Since when a worker has had the same key; of several workers, the longest. Undefined while none has one. */
  get workingSince(): number | undefined {
    const [longest] = this.#processing.values();
    return longest;
  }

  /** Since when keys have waited without a worker taking or finishing one; undefined while none waits. */
  get waitingSince(): number | undefined {
    const [longest] = this.#waiting.values();
    return longest === undefined ? undefined : Math.max(longest, this.#lastProgressAt);
  }

  failures(key: string): number {
    return this.#failures.get(key) ?? 0;
  }

  /** @param isSatisfied called when no worker has the key: if it returns true, the key is not added */
  add(key: string, isSatisfied: IsSatisfied = never): void {
    if (this.#shut || this.#waiting.has(key)) return;
    if (this.#processing.has(key)) {
      this.#dirty.set(key, [...(this.#dirty.get(key) ?? []), isSatisfied]);
      return;
    }
    if (isSatisfied()) return;
    this.#waiting.set(key, this.#options.clock.monotonicMilliseconds());
    this.#reportDepth();
    this.#serve();
  }

  /** Adds a key after a delay. The earlier of two delays counts; a worker that takes the key first cancels both. */
  addAfter(key: string, milliseconds: number): void {
    if (this.#shut) return;
    if (milliseconds <= 0) {
      this.add(key);
      return;
    }
    const at = this.#options.clock.monotonicMilliseconds() + milliseconds;
    const known = this.#delayed.get(key);
    if (known !== undefined && known.at <= at) return;
    known?.cancel();
    const cancel = this.#options.clock.schedule(milliseconds, () => {
      this.#delayed.delete(key);
      this.add(key);
    });
    this.#delayed.set(key, { at, cancel });
  }

  /** Adds a key after a pause that grows with each consecutive failure. @returns the pause in milliseconds */
  retry(key: string): number {
    const failures = this.failures(key);
    this.#failures.set(key, failures + 1);
    this.#options.metrics?.retried();
    const pause = backoffMilliseconds(this.#backoff, failures, this.#options.random ?? Math.random);
    this.addAfter(key, pause);
    return pause;
  }

  /** Resets the pause of a key after a success. */
  forget(key: string): void {
    this.#failures.delete(key);
  }

  /** Resolves with the next key, or `undefined` once the queue is shut down. */
  take(): Promise<QueueItem | undefined> {
    return new Promise((resolve) => {
      if (this.#shut) {
        resolve(undefined);
        return;
      }
      this.#takers.push(resolve);
      this.#serve();
    });
  }

  /**
   * Stops accepting and handing out keys, and resolves when the workers have finished theirs. Waiting keys are dropped: the next
   * process lists everything anyway.
   */
  async shutDown(): Promise<void> {
    this.#shut = true;
    for (const { cancel } of this.#delayed.values()) cancel();
    this.#delayed.clear();
    this.#waiting.clear();
    this.#dirty.clear();
    this.#failures.clear();
    this.#reportDepth();
    for (const resolve of this.#takers.splice(0)) resolve(undefined);
    if (this.#processing.size === 0) return;
    await new Promise<void>((resolve) => {
      this.#idle.push(resolve);
    });
  }

  #serve(): void {
    while (this.#takers.length > 0) {
      const next = this.#waiting.entries().next();
      if (next.done === true) return;
      const [key, since] = next.value;
      this.#takers.shift()?.(this.#start(key, since));
    }
  }

  #start(key: string, since: number): QueueItem {
    const { clock, metrics } = this.#options;
    const started = clock.monotonicMilliseconds();
    this.#waiting.delete(key);
    this.#processing.set(key, started);
    this.#lastProgressAt = started;
    // Work is level-triggered: it also covers a delayed addition.
    this.#delayed.get(key)?.cancel();
    this.#delayed.delete(key);
    this.#reportDepth();
    metrics?.waited(started - since);
    let finished = false;
    return {
      key,
      done: () => {
        if (finished) return;
        finished = true;
        metrics?.worked(clock.monotonicMilliseconds() - started);
        this.#finish(key);
      },
    };
  }

  #finish(key: string): void {
    this.#processing.delete(key);
    this.#lastProgressAt = this.#options.clock.monotonicMilliseconds();
    const requests = this.#dirty.get(key) ?? [];
    this.#dirty.delete(key);
    for (const isSatisfied of requests) this.add(key, isSatisfied);
    if (this.#processing.size === 0) for (const resolve of this.#idle.splice(0)) resolve();
  }

  #reportDepth(): void {
    this.#options.metrics?.depth(this.#waiting.size);
  }
}

const never: IsSatisfied = () => false;
