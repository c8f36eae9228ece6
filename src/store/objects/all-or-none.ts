/** Does it for all items at once. Where one fails, the others are given up; this has no other end than when all have ended. */
export async function allOrNone<Item, Result>(
  signal: AbortSignal | undefined,
  items: readonly Item[],
  operation: (item: Item, signal: AbortSignal, index: number) => Promise<Result>,
): Promise<Result[]> {
  const giveUp = new AbortController();
  const until = signal === undefined ? giveUp.signal : AbortSignal.any([signal, giveUp.signal]);
  const all = items.map((item, index) => operation(item, until, index));
  try {
    return await Promise.all(all);
  } finally {
    giveUp.abort();
    await Promise.allSettled(all);
  }
}
