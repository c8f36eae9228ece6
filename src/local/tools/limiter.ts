/** Runs work, no more than so many pieces at a time; the rest waits its turn. */
export type Limiter = <T>(work: () => Promise<T>) => Promise<T>;

export function limiter(atOnce: number): Limiter {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async (work) => {
    if (running >= atOnce) await new Promise<void>((resolve) => waiting.push(resolve));
    else running += 1;
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      // The one that waits takes this one's place, so the number stays as it is.
      if (next === undefined) running -= 1;
      else next();
    }
  };
}
