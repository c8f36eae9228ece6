import type { SandboxGuest } from "../../../backends/sandbox-access.ts";
import { delay, type Clock } from "../../../base/clock.ts";

/**
 * Asks a sandbox again and again, while a command runs in it, how many processes there are. A program that starts others
 * without end is known by a great number, or by a guest that gets no time to answer, whatever the last answer said: one may
 * come through at any moment, and the end of such a program lets the guest answer at once. Where the command's own time is
 * up, that is the cause.
 */
export class ProcessWatch {
  readonly #clock: Clock;
  readonly #stopped = new AbortController();
  readonly #overAt: number;
  #mostProcesses = 0;
  #longestSilence = 0;
  #answeredAt: number;

  /** @param timeoutSeconds of the command, which begins now */
  constructor(guest: Pick<SandboxGuest, "list">, clock: Clock, timeoutSeconds: number) {
    this.#clock = clock;
    this.#answeredAt = clock.monotonicMilliseconds();
    this.#overAt = this.#answeredAt + timeoutSeconds * 1000;
    this.#watch(guest).catch(() => undefined);
  }

  stop(): void {
    this.#stopped.abort();
  }

  /** What is to be told of a command whose time is up, as the end of a sentence; empty where nothing is remarkable. */
  note(): string {
    const silentSeconds = Math.floor(Math.max(this.#longestSilence, this.#silence()) / 1000);
    if (silentSeconds >= longSilenceSeconds) {
      return `; the sandbox had not answered for ${silentSeconds} s: ${cause}, or at how busy its node is`;
    }
    const processes = this.#mostProcesses;
    return processes >= manyProcesses ? `; it had ${processes} processes: ${cause}` : "";
  }

  async #watch(guest: Pick<SandboxGuest, "list">): Promise<void> {
    while (!this.#stopped.signal.aborted && this.#clock.monotonicMilliseconds() < this.#overAt) {
      await delay(this.#clock, betweenCountsMilliseconds, this.#stopped.signal);
      // One that cannot be reached: what is wrong, the command's own connection tells.
      const count = await processesIn(guest).catch(() => undefined);
      if (count === undefined) continue;
      this.#longestSilence = Math.max(this.#longestSilence, this.#silence());
      this.#mostProcesses = Math.max(this.#mostProcesses, count);
      this.#answeredAt = this.#clock.monotonicMilliseconds();
    }
  }

  /** In milliseconds, since the last answer; what comes after the command's time does not count. */
  #silence(): number {
    return Math.min(this.#clock.monotonicMilliseconds(), this.#overAt) - this.#answeredAt;
  }
}

async function processesIn(guest: Pick<SandboxGuest, "list">): Promise<number> {
  return (await guest.list("/proc")).filter(({ name }) => /^\d+$/.test(name)).length;
}

const cause = "look at whether a program starts others without end";
const betweenCountsMilliseconds = 1_000;
const longSilenceSeconds = 4;
const manyProcesses = 500;
