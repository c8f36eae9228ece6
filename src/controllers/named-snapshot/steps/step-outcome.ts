/** How a step ended. */
export interface StepOutcome {
  milliseconds: number;
  /** What it printed; of much, the end. */
  log: string;
  exitCode?: number;
  /** Why it has failed; absent: it has not. */
  error?: string;
}

/** The end of a log, as a status has room for. */
export function lastLines(log: string): string {
  const tail = log.length <= mostCharacters ? log : log.slice(-mostCharacters);
  const lines = tail.split("\n");
  // A log that ends with a line feed has an empty piece after it.
  const kept = lines.slice(-(mostLines + 1));
  const wasCut = tail.length < log.length && kept.length === lines.length;
  return (wasCut ? kept.slice(1) : kept).join("\n") || tail;
}

const mostCharacters = 2_048;
const mostLines = 20;
