import { type Clock, backoffMilliseconds } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";

/** The state of a long call. `failures`: how many times in a row the other side could not be reached. */
export type Attempt<T> =
  | { state: "running"; failures: number; lastError?: RametError }
  | { state: "done"; value: T }
  | { state: "failed"; error: RametError };

export interface AttemptsOptions {
  clock: Clock;
  random: () => number;
  /** How long an unreachable side is called again. @default no limit */
  giveUpAfterMilliseconds?: number;
}

/**
 * Long calls that run outside reconciles, so that no reconcile waits for one: a reconcile starts a call and returns, and the
 * key is requeued when the call has ended. One call per id. A call to an unreachable side is repeated after a growing pause.
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

  /** Starts the call unless it is already started. `onChange` is called at its end and at its first failure. */
  start(id: string, call: Call<T>, onChange: () => void): void {
    if (this.#attempts.has(id)) return;
    this.#run(this.#enter(id, call, onChange));
  }

  /**
   * Ends the wait of a call whose response can no longer come, and makes this call instead, once. If the response comes
   * nevertheless, it is used.
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
    // The old call completes its other work first, so that none of it happens after the outcome of the new one.
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

  /** Drops the outcome. A running call continues, and its end is ignored. */
  forget(id: string): void {
    this.#attempts.get(id)?.cancel();
    this.#attempts.delete(id);
  }

  /** Ends the wait of a running call, and drops its outcome. Resolves when the call has ended. */
  async end(id: string): Promise<void> {
    const entry = this.#attempts.get(id);
    this.forget(id);
    entry?.giveUp.abort();
    await entry?.underWay?.catch(() => undefined);
  }

  /** Stops repeating calls. Operations in cells continue, and a later call joins them. */
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

/** A new cell listens within milliseconds. */
const pauses = { baseMilliseconds: 10, maxMilliseconds: 2_000 };

type Call<T> = (signal: AbortSignal) => Promise<T>;

interface Entry<T> {
  attempt: Attempt<T>;
  /** Cancels the pause before the next try. */
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
 * Detects what lasts too long: a start that is slow, an image that cannot be pulled. A sandbox that starts fast gets one status:
 * Running. A slow one gets another status before, which reports what it waits for.
 */
export class SlowStart {
  readonly #clock: Clock;
  readonly #milliseconds: number;
  readonly #since = new Map<string, number>();

  constructor(clock: Clock, milliseconds = slowMilliseconds) {
    this.#clock = clock;
    this.#milliseconds = milliseconds;
  }

  /** Milliseconds until `id` counts as slow; 0: it does already. The time of a new id starts now. */
  millisecondsLeft(id: string): number {
    const now = this.#clock.monotonicMilliseconds();
    const since = this.#since.get(id) ?? now;
    this.#since.set(id, since);
    return Math.max(0, since + this.#milliseconds - now);
  }

  forget(id: string): void {
    this.#since.delete(id);
  }
}

const slowMilliseconds = 500;
