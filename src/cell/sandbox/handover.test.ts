import { describe, expect, it } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { RametError } from "../../base/errors.ts";
import { untilGuestAnswers } from "./handover.ts";

const unreachable = (): Promise<never> => Promise.reject(new RametError("GuestUnreachable", "no connection"));
const never = new Promise<void>(() => undefined);
/** Lets pending promises settle. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe("untilGuestAnswers", () => {
  it("fails after 15 s if the guest does not respond", async () => {
    const clock = new ManualClock();
    const result = expect(untilGuestAnswers(unreachable, { ended: never, clock })).rejects.toMatchObject({
      code: "GuestUnreachable",
      message: "the guest did not respond within 15000 ms",
    });
    await settle();
    expect(clock.waits).toEqual([2]);
    clock.advance(15_001);
    await result;
  });

  it("retries until the guest responds", async () => {
    const clock = new ManualClock();
    let calls = 0;
    const result = untilGuestAnswers(() => (++calls < 3 ? unreachable() : Promise.resolve("response")), {
      ended: never,
      clock,
    });
    for (let attempt = 1; attempt < 3; attempt += 1) {
      await settle();
      clock.advance(2);
    }
    expect(await result).toBe("response");
  });

  it("fails if the sandbox ends", async () => {
    const clock = new ManualClock();
    const result = expect(untilGuestAnswers(unreachable, { ended: Promise.resolve(), clock })).rejects.toMatchObject({
      code: "SandboxLost",
    });
    await settle();
    clock.advance(2);
    await result;
  });

  it("does not retry another error", async () => {
    const conflict = (): Promise<never> => Promise.reject(new RametError("Conflict", "a later generation"));
    await expect(untilGuestAnswers(conflict, { ended: never, clock: new ManualClock() })).rejects.toMatchObject({
      code: "Conflict",
    });
  });
});
