import { describe, expect, it, vi } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { silenceLimit, silenceMilliseconds } from "./azure/azure-bucket.ts";

describe("silenceLimit", () => {
  it("aborts a request that gets no response and throws Timeout", async () => {
    const clock = new ManualClock();
    const { during, signal } = silenceLimit({ clock });
    const result = during(() => untilAborted(signal));
    clock.advance(silenceMilliseconds);
    await expect(result).rejects.toMatchObject({ code: "Timeout", message: "the request timed out after 60 s" });
    expect(clock.waits).toEqual([]);
  });

  it("throws the client's error when the caller aborts", async () => {
    const caller = new AbortController();
    const { during, signal } = silenceLimit({ clock: new ManualClock(), signal: caller.signal });
    const result = during(() => untilAborted(signal));
    caller.abort();
    await expect(result).rejects.toMatchObject({ name: "AbortError" });
  });

  it("limits the wait for each chunk but not for the whole body, and closes the body after a timeout", async () => {
    const clock = new ManualClock();
    const { chunks, signal } = silenceLimit({ clock });
    const close = vi.fn();
    const read = chunks(slowBody({ clock, signal, close }));
    for (const expected of ["a", "b"]) {
      const next = read.next();
      await vi.waitFor(() => {
        expect(clock.waits).toEqual([silenceMilliseconds - 1, silenceMilliseconds]);
      });
      clock.advance(silenceMilliseconds - 1);
      expect(await next).toMatchObject({ value: expected });
    }
    const last = read.next();
    await vi.waitFor(() => {
      expect(clock.waits).toEqual([silenceMilliseconds]);
    });
    clock.advance(silenceMilliseconds);
    await expect(last).rejects.toMatchObject({ code: "Timeout" });
    expect(close).toHaveBeenCalledOnce();
  });
});

/** Behaves like a cloud client: waits until its signal aborts. */
function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => {
      reject(new DOMException("aborted", "AbortError"));
    });
  });
}

interface SlowBody {
  clock: ManualClock;
  signal: AbortSignal;
  close: () => void;
}

/** Two chunks, each just in time, then silence. */
async function* slowBody({ clock, signal, close }: SlowBody): AsyncGenerator<string> {
  const chunk = (text: string) =>
    new Promise<string>((resolve) => {
      clock.schedule(silenceMilliseconds - 1, () => {
        resolve(text);
      });
    });
  try {
    yield await chunk("a");
    yield await chunk("b");
    await untilAborted(signal);
  } finally {
    close();
  }
}
