import type { Clock } from "./clock.ts";
import { RametError } from "./errors.ts";
import { defined } from "./defined.ts";

export interface Deadline {
  clock: Clock;
  milliseconds: number;
  /** The operation, as the subject of the error message: `The restore`. */
  what: string;
  /** The next step of the reader after a timeout. */
  hint?: string;
  /** Whether the same call may succeed later. @default false */
  retryable?: boolean;
  /** The caller's signal. When it aborts, `within` throws whatever `work` throws. */
  signal?: AbortSignal | undefined;
}

/**
 * Runs `work` with a time limit. The signal that `work` receives aborts at the deadline or together with `signal`.
 * `work` must stop when that happens: `within` waits for it.
 *
 *     await within({ clock, milliseconds: 3_000, what: "The access review" }, (signal) => client.request({ signal }));
 *
 * @throws RametError `Timeout` (`The access review timed out after 3 s`) when `work` fails after the deadline; otherwise
 *   what `work` throws
 */
export async function within<T>(
  { clock, milliseconds, what, hint, retryable, signal }: Deadline,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const expired = new AbortController();
  const cancel = clock.schedule(milliseconds, () => {
    expired.abort();
  });
  try {
    return await work(signal === undefined ? expired.signal : AbortSignal.any([expired.signal, signal]));
  } catch (error) {
    if (!expired.signal.aborted || signal?.aborted === true) throw error;
    throw new RametError("Timeout", `${what} timed out after ${milliseconds / 1000} s`, {
      ...defined({ hint, retryable }),
      cause: error,
    });
  } finally {
    cancel();
  }
}
