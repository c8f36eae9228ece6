/** Milliseconds by phase of an operation, in the order in which the phases ended. */
export type Phases = Record<string, number>;

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

/** Measures consecutive phases in milliseconds, in the order in which they end. */
export function phaseTimer(): { phases: Phases; end(phase: string): void } {
  const phases: Phases = {};
  let since = performance.now();
  return {
    phases,
    end: (phase) => {
      const now = performance.now();
      phases[phase] = Math.round((now - since) * 100) / 100;
      since = now;
    },
  };
}
