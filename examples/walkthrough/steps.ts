/** One line of the table at the end. */
interface Row {
  what: string;
  milliseconds: number;
}

/** Tells a person what happens, how long it took, and at the end all of it once more as a table. */
export class Steps {
  readonly #rows: Row[] = [];
  #notes = 0;

  /** Does one step; `work` answers what a person should know of the outcome. */
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

  /** Tells how the present step goes on, on a line of its own. */
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

/** Stops the walk-through when a sandbox does not hold what it must. */
export function expectEqual(what: string, actual: string, expected: string): void {
  if (actual !== expected)
    throw new Error(`${what} is ${JSON.stringify(actual)}, expected ${JSON.stringify(expected)}`);
}
