/** One row of the final table. */
interface Row {
  what: string;
  milliseconds: number;
}

/** Prints each step with its duration, and all steps as a table at the end. */
export class Steps {
  readonly #rows: Row[] = [];
  #notes = 0;

  /** Runs one step. `work` returns a sentence about the result. */
  async step(what: string, work: () => Promise<string>): Promise<void> {
    process.stdout.write(`• ${what} … `);
    const start = performance.now();
    const notes = this.#notes;
    try {
      const result = await work();
      const milliseconds = performance.now() - start;
      this.#rows.push({ what, milliseconds });
      console.log(`${this.#notes > notes ? "\n  " : ""}${text(milliseconds)}\n    ${result}`);
    } catch (error) {
      console.log("failed");
      throw error;
    }
  }

  /** Prints progress of the current step on a separate line. */
  note(line: string): void {
    this.#notes++;
    process.stdout.write(`\n    ${line}`);
  }

  table(): string {
    const width = Math.max(...this.#rows.map(({ what }) => what.length));
    const line = ({ what, milliseconds }: Row): string => `${what.padEnd(width)}  ${text(milliseconds).padStart(8)}`;
    return this.#rows.map(line).join("\n");
  }
}

function text(milliseconds: number): string {
  return milliseconds < 10_000 ? `${milliseconds.toFixed(0)} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
}

/** Stops the walk-through if a value differs from the expected one. */
export function expectEqual(what: string, actual: string, expected: string): void {
  if (actual !== expected)
    throw new Error(`${what} is ${JSON.stringify(actual)}, expected ${JSON.stringify(expected)}`);
}
