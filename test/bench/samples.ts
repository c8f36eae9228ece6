/** One row of a report, the summary of many measurements. */
export interface Summary {
  n: number;
  p50: number;
  p95: number;
  p99: number;
  mean: number;
  min: number;
  max: number;
}

/** Percentiles by nearest rank: each is a value that was measured. With n = 30, p99 is the largest one. */
export function summary(values: readonly number[]): Summary | undefined {
  if (values.length === 0) return undefined;
  const sorted = values.toSorted((a, b) => a - b);
  const rank = (share: number): number => sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0;
  return {
    n: sorted.length,
    p50: rank(0.5),
    p95: rank(0.95),
    p99: rank(0.99),
    mean: sorted.reduce((sum, value) => sum + value, 0) / sorted.length,
    min: rank(0),
    max: rank(1),
  };
}

/** One side of a figure: all values by name of the measure. */
export class Samples {
  readonly values = new Map<string, number[]>();

  add(measures: Record<string, number>): void {
    for (const [name, value] of Object.entries(measures)) {
      const values = this.values.get(name) ?? [];
      values.push(value);
      this.values.set(name, values);
    }
  }

  summary(name: string): Summary | undefined {
    return summary(this.values.get(name) ?? []);
  }
}
