/** The duration of each phase of an operation in milliseconds, in the order in which the phases ended. */
export type Phases = Record<string, number>;

/** Measures named phases, which may overlap or repeat, in milliseconds. */
export class PhaseClock {
  readonly phases: Phases = {};

  /** Runs `work` as the phase `name`. Durations of the same phase are added up. */
  async phase<T>(name: string, work: () => Promise<T>): Promise<T> {
    const start = performance.now();
    try {
      return await work();
    } finally {
      this.phases[name] = (this.phases[name] ?? 0) + Math.round((performance.now() - start) * 10) / 10;
    }
  }
}

/** Measures consecutive phases in milliseconds. Each call of `end` names the phase since the previous call. */
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
