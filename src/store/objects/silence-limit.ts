import type { Clock } from "../../base/clock.ts";
import { within } from "../../base/within.ts";

/** The longest time that a cloud may send nothing while a controller waits for it, the client's own retries included. */
export const silenceMilliseconds = 60_000;

/** Bounds the waits of a client that has no time limit: without it, a request that gets no response waits forever. */
export interface SilenceLimit {
  /** The signal for the client: it aborts with the caller's signal, or when the cloud is silent for too long. */
  signal: AbortSignal;
  /** Waits for `operation`. @throws RametError `Timeout` when it takes too long */
  during: <T>(operation: () => Promise<T>) => Promise<T>;
  /** Yields the chunks of a body; each chunk has the full time. */
  chunks: <T>(body: AsyncIterable<T>) => AsyncGenerator<T>;
}

export function silenceLimit({ clock, signal }: { clock: Clock; signal?: AbortSignal | undefined }): SilenceLimit {
  const ended = new AbortController();
  const deadline = { clock, milliseconds: silenceMilliseconds, what: "the request", signal };

  const during = <T>(operation: () => Promise<T>): Promise<T> =>
    within(deadline, (expired) => {
      expired.addEventListener("abort", () => {
        ended.abort();
      });
      return operation();
    });

  return {
    signal: signal === undefined ? ended.signal : AbortSignal.any([signal, ended.signal]),
    during,
    async *chunks(body) {
      const chunks = body[Symbol.asyncIterator]();
      try {
        for (;;) {
          const next = await during(() => chunks.next());
          if (next.done === true) return;
          yield next.value;
        }
      } finally {
        await chunks.return?.();
      }
    },
  };
}
