import { describe, expect, it } from "vitest";
import { ManualClock } from "../../test/setup/manual-clock.ts";
import { type Deadline, within } from "./within.ts";

describe("within", () => {
  it("returns the result and leaves no timer", async () => {
    const clock = new ManualClock();
    expect(await within(deadline(clock), () => Promise.resolve("done"))).toBe("done");
    expect(clock.waits).toEqual([]);
  });

  it("aborts the work at the deadline and throws Timeout with the hint", async () => {
    const clock = new ManualClock();
    const result = within({ ...deadline(clock), hint: "Try again", retryable: true }, untilAborted);
    clock.advance(3_000);
    await expect(result).rejects.toMatchObject({
      code: "Timeout",
      message: "The restore timed out after 3 s",
      hint: "Try again",
      retryable: true,
    });
  });

  it("throws what the work throws before the deadline", async () => {
    const failure = new Error("refused");
    await expect(within(deadline(new ManualClock()), () => Promise.reject(failure))).rejects.toBe(failure);
  });

  it("throws what the work throws when the caller aborts", async () => {
    const caller = new AbortController();
    const result = within({ ...deadline(new ManualClock()), signal: caller.signal }, untilAborted);
    const reason = new Error("the caller stopped");
    caller.abort(reason);
    await expect(result).rejects.toBe(reason);
  });
});

function deadline(clock: ManualClock): Deadline {
  return { clock, milliseconds: 3_000, what: "The restore" };
}

function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => {
      reject(signal.reason as Error);
    });
  });
}
