import type { Phases } from "../api/cell.ts";

/** Takes the time of named phases of one operation, in milliseconds. */
export class PhaseClock {
  readonly phases: Phases = {};

  /** Runs `work` as the phase `name`; a phase that comes twice is summed. */
  async phase<T>(name: string, work: () => Promise<T>): Promise<T> {
    const start = performance.now();
    try {
      return await work();
    } finally {
      this.phases[name] = (this.phases[name] ?? 0) + Math.round((performance.now() - start) * 10) / 10;
    }
  }
}
