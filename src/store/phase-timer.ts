import type { Phases } from "../api/cell.ts";

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
