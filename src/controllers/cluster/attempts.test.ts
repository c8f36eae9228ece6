import { describe, expect, it } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { RametError } from "../../base/errors.ts";
import { Attempts } from "./attempts.ts";

const unreachable = new RametError("Unavailable", "connection refused", { retryable: true });
const flush = () => new Promise((resolve) => setImmediate(resolve));

function open(giveUpAfterMilliseconds?: number) {
  const clock = new ManualClock();
  const limit = giveUpAfterMilliseconds === undefined ? {} : { giveUpAfterMilliseconds };
  return { clock, attempts: new Attempts<string>({ clock, random: () => 0.5, ...limit }) };
}

describe("Attempts", () => {
  it("calls once for each id and reports when the call has ended", async () => {
    const { attempts } = open();
    const changes: string[] = [];
    let calls = 0;
    const start = () => {
      attempts.start(
        "a",
        () => Promise.resolve(`answer ${++calls}`),
        () => changes.push("changed"),
      );
    };
    start();
    start();
    expect(attempts.get("a")).toEqual({ state: "running", failures: 0 });
    await flush();
    expect(attempts.get("a")).toEqual({ state: "done", value: "answer 1" });
    expect(changes).toEqual(["changed"]);
  });

  it("repeats a call to an unreachable side, and reports the first failure", async () => {
    const { clock, attempts } = open();
    const changes: unknown[] = [];
    const outcomes = [
      () => Promise.reject(unreachable),
      () => Promise.reject(unreachable),
      () => Promise.resolve("up"),
    ];
    attempts.start(
      "a",
      () => outcomes.shift()!(),
      () => changes.push(attempts.get("a")?.state),
    );
    await flush();
    expect(attempts.get("a")).toMatchObject({ state: "running", failures: 1, lastError: unreachable });
    clock.advance(1_000);
    await flush();
    clock.advance(1_000);
    await flush();
    expect(attempts.get("a")).toEqual({ state: "done", value: "up" });
    expect(changes).toEqual(["running", "done"]);
  });

  it("gives up after its time limit, and immediately on a permanent error", async () => {
    const { clock, attempts } = open(5_000);
    attempts.start(
      "late",
      () => Promise.reject(unreachable),
      () => undefined,
    );
    const final = new RametError("StoreFull", "no room");
    attempts.start(
      "final",
      () => Promise.reject(final),
      () => undefined,
    );
    await flush();
    expect(attempts.get("final")).toEqual({ state: "failed", error: final });
    for (let second = 0; second < 12; second++) {
      clock.advance(1_000);
      await flush();
    }
    expect(attempts.get("late")).toEqual({ state: "failed", error: unreachable });
    expect(clock.waits).toEqual([]);
  });

  describe("replace", () => {
    const never = (signal: AbortSignal) =>
      new Promise<string>((_, reject) => {
        signal.addEventListener("abort", () => {
          reject(new RametError("Canceled", "given up"));
        });
      });
    const ignore = () => undefined;

    it("cancels a call without a response, waits for its end, and makes the other call once", async () => {
      const { attempts } = open();
      let calls = 0;
      const other = () => Promise.resolve(`other ${++calls}`);
      attempts.start("a", never, ignore);
      attempts.replace("a", other, ignore);
      expect(calls).toBe(0);
      attempts.replace("a", other, ignore);
      await flush();
      attempts.replace("a", other, ignore);
      await flush();
      expect(attempts.get("a")).toEqual({ state: "done", value: "other 1" });
    });

    it("makes the other call immediately in the pause between two tries, and drops the first", async () => {
      const { clock, attempts } = open();
      let tries = 0;
      const refused = () => Promise.reject(unreachable).finally(() => tries++);
      attempts.start("a", refused, ignore);
      await flush();
      attempts.replace("a", () => Promise.resolve("other"), ignore);
      await flush();
      expect(attempts.get("a")).toEqual({ state: "done", value: "other" });
      expect([tries, clock.waits]).toEqual([1, []]);
    });

    it("keeps the response of the first call if it arrives nevertheless", async () => {
      const { attempts } = open();
      const answer = Promise.withResolvers<string>();
      attempts.start("a", () => answer.promise, ignore);
      attempts.replace("a", () => Promise.resolve("other"), ignore);
      answer.resolve("first");
      await flush();
      expect(attempts.get("a")).toEqual({ state: "done", value: "first" });
    });

    it("starts a call that was not started, and keeps the outcome of one that has ended", async () => {
      const { attempts } = open();
      attempts.replace("a", () => Promise.resolve("only"), ignore);
      await flush();
      attempts.replace("a", () => Promise.resolve("late"), ignore);
      await flush();
      expect(attempts.get("a")).toEqual({ state: "done", value: "only" });
    });
  });

  it("does not repeat a call that was forgotten", async () => {
    const { clock, attempts } = open();
    attempts.start(
      "a",
      () => Promise.reject(unreachable),
      () => undefined,
    );
    await flush();
    attempts.forget("a");
    expect(clock.waits).toEqual([]);
    expect(attempts.get("a")).toBeUndefined();
  });
});
