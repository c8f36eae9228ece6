/** Like `Promise.all`, for promises by name. */
export async function allOf<T extends object>(promises: {
  [K in keyof T]: Promise<T[K]>;
}): Promise<T> {
  const entries = Object.entries<Promise<unknown>>(promises).map(async ([name, value]) => [name, await value] as const);
  return Object.fromEntries(await Promise.all(entries)) as T;
}
