import { renameSync, writeFileSync } from "node:fs";
import type { CellState } from "../../api/cell/cell-api.ts";
import type { Cell } from "../lifecycle/cell.ts";

/** Steps of a start and of a swap follow one another within less, and to write each would cost more than the node learns. */
const stepMilliseconds = 300;
const startPhases: ReadonlySet<string> = new Set(["preparing", "waiting", "booting", "restoring"]);

/**
 * Keeps the cell's state in a file for the node that runs it: at once, but for such steps. Synchronous: the
 * last state must be there when the process ends.
 */
export function keepStateFile(cell: Cell, path: string): void {
  let later: NodeJS.Timeout | undefined;
  const write = (): void => {
    clearTimeout(later);
    later = undefined;
    writeState(path, cell.state);
  };
  write();
  cell.onChange(({ phase, swapping }) => {
    const isStep = startPhases.has(phase) || (swapping !== undefined && phase !== "failed");
    if (isStep) later ??= setTimeout(write, stepMilliseconds);
    else write();
  });
}

/** Replaces the file at once: whoever reads it finds the state before or this one. */
export function writeState(path: string, state: CellState): void {
  writeFileSync(`${path}.new`, `${JSON.stringify(state)}\n`);
  renameSync(`${path}.new`, path);
}
