import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { silenceLimit, silenceMilliseconds } from "./silence-limit.ts";

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

/** As a client does: it waits until it is told to stop. */
function untilStopped(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => {
      reject(new DOMException("given up", "AbortError"));
    });
  });
}

it("ends what is never answered, and says why", async () => {
  const { during, signal } = silenceLimit();
  const ended = expect(during(() => untilStopped(signal))).rejects.toThrow("nothing came for 60 s");
  await vi.advanceTimersByTimeAsync(silenceMilliseconds);
  await ended;
});

it("leaves what the caller gave up as it is", async () => {
  const caller = new AbortController();
  const { during, signal } = silenceLimit(caller.signal);
  const ended = expect(during(() => untilStopped(signal))).rejects.toMatchObject({ name: "AbortError" });
  caller.abort();
  await ended;
});

it("bounds each chunk of a body, however long all of it takes, and ends the body with its reader", async () => {
  const { chunks, signal } = silenceLimit();
  const chunk = (text: string) =>
    new Promise<string>((resolve) => {
      setTimeout(() => {
        resolve(text);
      }, silenceMilliseconds - 1);
    });
  const end = vi.fn();
  async function* body(): AsyncGenerator<string> {
    try {
      yield await chunk("a");
      yield await chunk("b");
      await untilStopped(signal);
    } finally {
      end();
    }
  }
  const read = chunks(body());
  for (const expected of ["a", "b"]) {
    const next = read.next();
    await vi.advanceTimersByTimeAsync(silenceMilliseconds - 1);
    expect(await next).toMatchObject({ value: expected });
  }
  const refused = expect(read.next()).rejects.toThrow("nothing came");
  await vi.advanceTimersByTimeAsync(silenceMilliseconds);
  await refused;
  expect(end).toHaveBeenCalledOnce();
});
