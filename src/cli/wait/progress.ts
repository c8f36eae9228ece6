import { printLine, type Io } from "../io.ts";

/**
 * Tells a person what is happening, one line at each change, with the seconds since the beginning. Says nothing where
 * nobody watches.
 */
export function startProgress(io: Io): (state: string) => void {
  const started = io.clock.monotonicMilliseconds();
  let last: string | undefined;
  return (state) => {
    if (!io.progressIsSeen || state === last) return;
    last = state;
    const seconds = (io.clock.monotonicMilliseconds() - started) / 1000;
    printLine(io.stderr, `${seconds.toFixed(1).padStart(6)}s  ${state}`);
  };
}
