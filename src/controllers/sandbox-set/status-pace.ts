import type { SandboxSetStatus } from "../../api/kinds/sandbox-set.ts";
import type { Clock } from "../../base/clock.ts";

/**
 * Limits status writes: changes of conditions and revisions are written immediately, changes of counts at most four times a
 * second. Hundreds of sandboxes that become ready one after another then cost only a few writes.
 */
export class StatusPace {
  readonly #clock: Clock;
  readonly #lastAt = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Milliseconds until `desired` may be written; 0: now. */
  millisecondsUntil(uid: string, known: SandboxSetStatus | undefined, desired: SandboxSetStatus): number {
    const lastAt = this.#lastAt.get(uid);
    if (lastAt === undefined || withoutCounts(known) !== withoutCounts(desired)) return 0;
    return Math.max(0, lastAt + paceMilliseconds - this.#clock.monotonicMilliseconds());
  }

  written(uid: string): void {
    this.#lastAt.set(uid, this.#clock.monotonicMilliseconds());
  }

  forget(uid: string): void {
    this.#lastAt.delete(uid);
  }
}

const paceMilliseconds = 250;

/** Everything except counts, which are also in condition messages. */
function withoutCounts(status: SandboxSetStatus | undefined): string {
  const conditions = status?.conditions?.map(({ type, reason, status: is }) => [type, reason, is]);
  return JSON.stringify([status?.updateRevision, status?.currentRevision, status?.selector, conditions]);
}
