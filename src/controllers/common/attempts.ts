import { backoffMilliseconds } from "../../base/backoff.ts";
import type { Clock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";

/** How a call that takes its time stands. `failures`: how often in a row the other side could not be reached. */
export type Attempt<T> =
  | { state: "running"; failures: number; lastError?: RametError }
  | { state: "done"; value: T }
  | { state: "failed"; error: RametError };

export interface AttemptsOptions {
  clock: Clock;
  random: () => number;
  /** Until when somebody who cannot be reached is called again. @default no end */
  giveUpAfterMilliseconds?: number;
}

/**
 * Calls to cells that run beside the reconciles, so that no reconcile waits for one: a reconcile starts a call, ends, and
 * comes again when the call has ended. One call for each id. A call that finds nobody is repeated after a growing pause.
 */
export class Attempts<T> {
  readonly #options: AttemptsOptions;
  readonly #attempts = new Map<string, Entry<T>>();

  constructor(options: AttemptsOptions) {
    this.#options = options;
  }

  get(id: string): Attempt<T> | undefined {
    return this.#attempts.get(id)?.attempt;
  }

  /** Starts the call unless it was started already. `onChange` hears of its end and of its first failure. */
  start(id: string, call: Call<T>, onChange: () => void): void {
    if (this.#attempts.has(id)) return;
    this.#run(this.#enter(id, call, onChange));
  }

  /**
   * Ends the wait of a call whose answer cannot come any more, and makes this one in its place, once; started or not. If
   * the answer comes all the same, it counts.
   */
  replace(id: string, call: Call<T>, onChange: () => void): void {
    const present = this.#attempts.get(id);
    if (present?.isReplacement === true || (present !== undefined && present.attempt.state !== "running")) return;
    const run = this.#enter(id, call, onChange);
    run.entry.isReplacement = true;
    if (present?.underWay === undefined) {
      present?.cancel();
      this.#run(run);
      return;
    }
    const { underWay, giveUp } = present;
    // What it does beside the wait has its end first, so that nothing of it comes after the outcome of the other.
    underWay.then(
      (value) => {
        this.#settle(run, { state: "done", value });
      },
      () => {
        if (this.#attempts.get(id) === run.entry) this.#run(run);
      },
    );
    giveUp.abort();
  }

  /** The outcome is not needed any more; a call that runs goes on and nobody hears of its end. */
  forget(id: string): void {
    this.#attempts.get(id)?.cancel();
    this.#attempts.delete(id);
  }

  /** Nothing is called again. What is under way in cells goes on, and whoever asks again joins it. */
  close(): void {
    for (const id of [...this.#attempts.keys()]) this.forget(id);
  }

  #enter(id: string, call: Call<T>, onChange: () => void): Run<T> {
    const { clock, giveUpAfterMilliseconds = Number.POSITIVE_INFINITY } = this.#options;
    const entry: Entry<T> = {
      attempt: { state: "running", failures: 0 },
      cancel: () => undefined,
      giveUp: new AbortController(),
      isReplacement: false,
    };
    this.#attempts.set(id, entry);
    return { id, entry, call, onChange, deadline: clock.monotonicMilliseconds() + giveUpAfterMilliseconds };
  }

  #run(run: Run<T>): void {
    const { entry } = run;
    entry.underWay = run.call(entry.giveUp.signal);
    entry.underWay.then(
      (value) => {
        this.#settle(run, { state: "done", value });
      },
      (thrown: unknown) => {
        entry.underWay = undefined;
        const error = RametError.from(thrown);
        if (!this.#mayRepeat(error, run.deadline)) this.#settle(run, { state: "failed", error });
        else if (this.#attempts.get(run.id) === entry) this.#repeatLater(run, error);
      },
    );
  }

  #settle({ id, entry, onChange }: Run<T>, attempt: Attempt<T>): void {
    if (this.#attempts.get(id) !== entry) return;
    entry.attempt = attempt;
    onChange();
  }

  #repeatLater(run: Run<T>, lastError: RametError): void {
    const { clock, random } = this.#options;
    const { attempt } = run.entry;
    const failures = attempt.state === "running" ? attempt.failures : 0;
    run.entry.attempt = { state: "running", failures: failures + 1, lastError };
    if (failures === 0) run.onChange();
    run.entry.cancel = clock.schedule(backoffMilliseconds(pauses, failures, random), () => {
      this.#run(run);
    });
  }

  #mayRepeat({ code, retryable }: RametError, deadline: number): boolean {
    return retryable && code === "Unavailable" && this.#options.clock.monotonicMilliseconds() < deadline;
  }
}

/** A cell that has just been started listens within some milliseconds. */
const pauses = { baseMilliseconds: 10, maxMilliseconds: 2_000 };

type Call<T> = (signal: AbortSignal) => Promise<T>;

interface Entry<T> {
  attempt: Attempt<T>;
  /** Of the pause before the next try. */
  cancel: () => void;
  /** Undefined in such a pause. */
  underWay?: Promise<T> | undefined;
  giveUp: AbortController;
  isReplacement: boolean;
}

interface Run<T> {
  id: string;
  entry: Entry<T>;
  call: Call<T>;
  onChange: () => void;
  deadline: number;
}

/**
 * Tells what takes long. A sandbox that starts at once needs no status in between: its first one says Running. One that
 * waits gets a status that says for what.
 */
export class SlowStart {
  readonly #clock: Clock;
  readonly #since = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Milliseconds until `id`, which is first heard of now if it is new, counts as slow; 0: it does. */
  millisecondsLeft(id: string): number {
    const now = this.#clock.monotonicMilliseconds();
    const since = this.#since.get(id) ?? now;
    this.#since.set(id, since);
    return Math.max(0, since + slowMilliseconds - now);
  }

  forget(id: string): void {
    this.#since.delete(id);
  }
}

const slowMilliseconds = 500;
