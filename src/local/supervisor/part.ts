import { type Clock, backoffMilliseconds, delay, isAborted } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { identifyProcess } from "../../base/process-identity.ts";
import type { PartStatus } from "../cluster-status.ts";
import type { Child } from "../control-plane/child.ts";

export interface PartOptions {
  name: string;
  /** Starts the process. Resolves when it is ready. */
  start: (signal: AbortSignal) => Promise<Child>;
  clock: Clock;
  onChange: (status: PartStatus) => void;
  /** Time between SIGTERM and SIGKILL. */
  graceMilliseconds: number;
  /** The longest pause before it is started again. @default 10000 */
  longestPauseMilliseconds?: number | undefined;
}

/** Waits before what the user may make possible meanwhile, such as by installing Go, is tried again. Returns early if `signal` aborts. */
export async function pauseAfterFailure(clock: Clock, failures: number, signal: AbortSignal): Promise<void> {
  const backoff = { baseMilliseconds: 5_000, maxMilliseconds: 300_000, jitter: 0.2 };
  await delay(clock, backoffMilliseconds(backoff, failures, Math.random), signal).catch(() => undefined);
}

/** A process that has run this long is healthy: the back-off starts over. */
const healthyAfterMilliseconds = 30_000;
const restartBackoff = { baseMilliseconds: 100, jitter: 0.2 };

/** One process of a cluster. It is restarted whenever it ends. */
export class Part {
  readonly #options: PartOptions;
  readonly #stop = new AbortController();
  #restart = new AbortController();
  #status: PartStatus;
  #child: Child | undefined;
  #kept: Promise<void> = Promise.resolve();

  constructor(options: PartOptions) {
    this.#options = options;
    this.#status = { name: options.name, state: "waiting", restarts: 0 };
  }

  /** Resolves when the process is ready for the first time. @throws the error of its first start */
  async run(): Promise<void> {
    try {
      this.#kept = this.#keep(await this.#start());
    } catch (error) {
      this.#set({ message: RametError.from(error).message });
      throw error;
    }
  }

  /** Restarts the process without a back-off pause. A restart in progress is aborted. Does nothing before the first start. */
  restart(): void {
    if (this.#status.state === "waiting" || this.#status.state === "starting") return;
    this.#restart.abort();
    void this.#child?.stop(this.#options.graceMilliseconds);
  }

  /** Stops the process for good. Resolves when it has ended. */
  async stop(): Promise<void> {
    if (this.#status.state === "waiting") return;
    this.#set({ state: "stopping" });
    this.#stop.abort();
    await this.#child?.stop(this.#options.graceMilliseconds);
    await this.#kept;
    this.#set({ state: "stopped", process: undefined });
  }

  async #start(): Promise<Child> {
    this.#set({ state: this.#status.restarts === 0 ? "starting" : "restarting", process: undefined });
    this.#restart = new AbortController();
    const child = await this.#options.start(AbortSignal.any([this.#stop.signal, this.#restart.signal]));
    this.#child = child;
    this.#set({ state: "running", process: identifyProcess(child.pid) });
    return child;
  }

  async #keep(first: Child): Promise<void> {
    const { clock, longestPauseMilliseconds: maxMilliseconds = 10_000 } = this.#options;
    const { signal } = this.#stop;
    let child: Child | undefined = first;
    for (let failures = 0; !signal.aborted;) {
      const since = clock.monotonicMilliseconds();
      if (child !== undefined) this.#set({ message: `ended with ${await child.ended}` });
      if (isAborted(signal)) return;
      const { signal: restart } = this.#restart;
      if (restart.aborted || clock.monotonicMilliseconds() - since > healthyAfterMilliseconds) failures = 0;
      this.#set({ state: "restarting", process: undefined, restarts: this.#status.restarts + 1 });
      const pause = backoffMilliseconds({ ...restartBackoff, maxMilliseconds }, failures, Math.random);
      failures += 1;
      await delay(clock, pause, AbortSignal.any([signal, restart])).catch(() => undefined);
      if (isAborted(signal)) return;
      child = await this.#start().catch((error: unknown) => {
        this.#set({ message: RametError.from(error).message });
        return undefined;
      });
    }
  }

  #set(change: Partial<{ [Key in keyof PartStatus]: PartStatus[Key] | undefined }>): void {
    const merged = Object.entries({ ...this.#status, ...change }).filter(([, value]) => value !== undefined);
    this.#status = Object.fromEntries(merged) as PartStatus;
    this.#options.onChange(this.#status);
  }
}
