import { renameSync, writeFileSync } from "node:fs";
import type { CellState } from "../../api/wire/cell-api.ts";
import type { Clock } from "../../base/clock.ts";
import type { Cell } from "../lifecycle/cell.ts";

/** The steps of a start or a restore in place follow each other faster than this. Writing each step would waste CPU. */
const stepMilliseconds = 300;
const startPhases: ReadonlySet<string> = new Set(["preparing", "waiting", "booting", "restoring"]);

/**
 * Keeps the cell's state in a file for the node that runs it. Steps of a start are written after a delay, everything else
 * immediately. Writes are synchronous, so that the last state is in the file when the process exits.
 */
export function keepStateFile(cell: Pick<Cell, "state" | "onChange">, path: string, clock: Clock): void {
  let cancelWrite: (() => void) | undefined;
  const write = (): void => {
    cancelWrite?.();
    cancelWrite = undefined;
    writeState(path, cell.state);
  };
  write();
  cell.onChange(({ phase, swapping }) => {
    const isStep = startPhases.has(phase) || (swapping !== undefined && phase !== "failed");
    if (isStep) cancelWrite ??= clock.schedule(stepMilliseconds, write);
    else write();
  });
}

/** Replaces the file atomically: a reader finds either the old state or this one. */
export function writeState(path: string, state: CellState): void {
  writeFileSync(`${path}.new`, `${JSON.stringify(state)}\n`);
  renameSync(`${path}.new`, path);
}
