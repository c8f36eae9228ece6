/** The longest that a cloud may be silent while a controller waits for it, the client's own tries included. */
export const silenceMilliseconds = 60_000;

/** Bounds a client that has no limit of its own: one that is never answered would wait for ever. */
export interface SilenceLimit {
  /** What the client has to stop at: the caller's signal, or the end of patience. */
  signal: AbortSignal;
  /** What `operation` gives. @throws Error where nothing came for too long */
  during: <T>(operation: () => Promise<T>) => Promise<T>;
  /** A body, of which each chunk may take that long. */
  chunks: <T>(body: AsyncIterable<T>) => AsyncGenerator<T>;
}

export function silenceLimit(signal?: AbortSignal): SilenceLimit {
  const silent = new AbortController();

  async function during<T>(operation: () => Promise<T>): Promise<T> {
    const timer = setTimeout(() => {
      silent.abort();
    }, silenceMilliseconds);
    try {
      return await operation();
    } catch (error) {
      if (!silent.signal.aborted || signal?.aborted === true) throw error;
      throw new Error(`nothing came for ${silenceMilliseconds / 1000} s`, { cause: error });
    } finally {
      clearTimeout(timer);
    }
  }

  return {
    signal: signal === undefined ? silent.signal : AbortSignal.any([signal, silent.signal]),
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
