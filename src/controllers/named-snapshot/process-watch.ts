import type { SandboxGuest } from "../../backends/sandbox-access.ts";
import { delay, type Clock } from "../../kube/clock.ts";

/**
 * Asks a sandbox again and again, while a command runs in it, how many processes there are. A program that starts others
 * without end is known by a great number, or by a guest that gets no time to answer; where the command's own time is up,
 * that is the cause.
 */
export class ProcessWatch {
  readonly #clock: Clock;
  readonly #stopped = new AbortController();
  #count = 0;
  #answeredAt: number;

  constructor(guest: SandboxGuest, clock: Clock) {
    this.#clock = clock;
    this.#answeredAt = clock.monotonicMilliseconds();
    this.#watch(guest).catch(() => undefined);
  }

  stop(): void {
    this.#stopped.abort();
  }

  /** What is to be told of a command whose time is up, as the end of a sentence; empty where nothing is remarkable. */
  note(): string {
    const silentSeconds = Math.floor((this.#clock.monotonicMilliseconds() - this.#answeredAt) / 1000);
    if (silentSeconds >= longSilenceSeconds) {
      return `; the sandbox had not answered for ${silentSeconds} s: ${cause}, or at how busy its node is`;
    }
    return this.#count >= manyProcesses ? `; it had ${this.#count} processes by then: ${cause}` : "";
  }

  async #watch(guest: SandboxGuest): Promise<void> {
    while (!this.#stopped.signal.aborted) {
      await delay(this.#clock, betweenCountsMilliseconds, this.#stopped.signal);
      // One that cannot be reached: what is wrong, the command's own connection tells.
      const count = await processesIn(guest).catch(() => undefined);
      if (count === undefined) continue;
      this.#count = count;
      this.#answeredAt = this.#clock.monotonicMilliseconds();
    }
  }
}

async function processesIn(guest: SandboxGuest): Promise<number> {
  return (await guest.list("/proc")).filter(({ name }) => /^\d+$/.test(name)).length;
}

const cause = "look at whether a program starts others without end";
const betweenCountsMilliseconds = 1_000;
const longSilenceSeconds = 4;
const manyProcesses = 500;
