import { faultKindNames, type Fault, type FaultKind, type Operation } from "./plan.ts";

/** A promise of Ramet that did not hold. */
export interface Broken {
  /** The batch, and the faults of it that were injected. */
  batch: number;
  faults: number[];
  operation?: Operation;
  what: string;
}

/** The findings of a run. */
export class Report {
  readonly seed: number;
  readonly broken: Broken[] = [];
  readonly #injected = new Map<FaultKind, number>();
  readonly #missed = new Map<FaultKind, number>();
  readonly #outcomes = new Map<string, number>();
  readonly #messages = new Map<string, number>();
  readonly #started = Date.now();

  constructor(seed: number) {
    this.seed = seed;
  }

  get injected(): number {
    return [...this.#injected.values()].reduce((sum, count) => sum + count, 0);
  }

  /** @param hit what was hit; undefined: there was nothing to hit at that instant */
  fault({ kind }: Fault, hit: string | undefined): void {
    increment(hit === undefined ? this.#missed : this.#injected, kind);
  }

  outcome(operation: Operation, { succeeded, message }: { succeeded: boolean; message: string }): void {
    increment(this.#outcomes, `${operation} ${succeeded ? "succeeded" : "failed"}`);
    const code = /\[(\w+)\]/.exec(message)?.[1] ?? (message === "" ? "no message" : "no code");
    if (!succeeded) increment(this.#messages, code);
  }

  toJson(): object {
    return {
      seed: this.seed,
      seconds: Math.round((Date.now() - this.#started) / 1000),
      injected: this.injected,
      kinds: Object.fromEntries(
        faultKindNames.map((kind) => [
          kind,
          { injected: this.#injected.get(kind) ?? 0, missed: this.#missed.get(kind) ?? 0 },
        ]),
      ),
      operations: Object.fromEntries(this.#outcomes),
      reasons: Object.fromEntries(this.#messages),
      broken: this.broken,
    };
  }

  toText(): string {
    const rows = faultKindNames.map((kind) => {
      const [injected, missed] = [this.#injected.get(kind) ?? 0, this.#missed.get(kind) ?? 0];
      return `${kind.padEnd(18)}${String(injected).padStart(6)}${String(missed).padStart(8)}`;
    });
    const counts = (of: ReadonlyMap<string, number>): string =>
      [...of].map(([what, count]) => `${what}: ${count}`).join(", ");
    return [
      `${"kind".padEnd(18)}${"faults".padStart(6)}${"missed".padStart(8)}`,
      ...rows,
      `operations: ${counts(this.#outcomes)}`,
      `reasons of failures: ${counts(this.#messages)}`,
      `${this.injected} faults injected with seed ${this.seed}, ${this.broken.length} promises broken`,
      ...this.broken.map(({ batch, faults, operation, what }) => {
        return `  batch ${batch}, faults ${faults.join(" ")}, ${operation ?? "cluster"}: ${what}`;
      }),
    ].join("\n");
  }
}

function increment<Key>(counts: Map<Key, number>, key: Key): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}
