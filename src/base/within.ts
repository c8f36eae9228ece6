import { RametError } from "./errors.ts";
import type { Clock } from "./clock.ts";

export interface Bound {
  clock: Clock;
  milliseconds: number;
  /** What is given up, as the beginning of a sentence. */
  what: string;
  /** What to do then. */
  hint: string;
  /** Gives it up earlier; what `work` throws then is thrown. */
  signal?: AbortSignal | undefined;
}

/** Gives `work` that long; its signal is aborted then. @throws RametError `Timeout` */
export async function bounded<T>(
  { clock, milliseconds, what, hint, signal }: Bound,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const over = new AbortController();
  const cancel = clock.schedule(milliseconds, () => {
    over.abort();
  });
  try {
    return await work(signal === undefined ? over.signal : AbortSignal.any([over.signal, signal]));
  } catch (error) {
    if (!over.signal.aborted) throw error;
    const why = `the cell did not answer within ${milliseconds / 1000} s`;
    throw new RametError("Timeout", `${what} was given up: ${why}`, { hint, cause: error });
  } finally {
    cancel();
  }
}
