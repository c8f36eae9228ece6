/** Resolves as soon as `signal` is aborted. */
export function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    const onAbort = (): void => {
      resolve();
    };
    signal.addEventListener("abort", onAbort, { once: true });
  });
}
