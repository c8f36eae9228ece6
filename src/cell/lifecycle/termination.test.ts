import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { States } from "./states.ts";
import { Termination } from "./termination.ts";

let clock: ManualClock;
let states: States;
const signals: string[] = [];
const report = () => undefined;
const engine = {
  signal: (name: string) => {
    signals.push(name);
    return Promise.resolve();
  },
};

function terminationWith(config: { graceSeconds: number; podGraceSeconds?: number }): Termination {
  return new Termination({ clock, states, report, setting: { config }, environment: { sandbox: { engine } } });
}

beforeEach(() => {
  clock = new ManualClock();
  states = new States();
  states.set({ phase: "running", ready: true });
  signals.length = 0;
});

describe("the end of a sandbox's Pod", () => {
  it("is not held if its configuration does not say so, or the sandbox does not run", async () => {
    await terminationWith({ graceSeconds: 30 }).held();
    states.set({ phase: "waiting", ready: false });
    await terminationWith({ graceSeconds: 30, podGraceSeconds: 30 }).held();
    expect(clock.waits).toEqual([]);
  });

  it("is not held if it is intended, before or after it begins", async () => {
    const before = terminationWith({ graceSeconds: 30, podGraceSeconds: 30 });
    before.intend();
    await before.held();
    const after = terminationWith({ graceSeconds: 30, podGraceSeconds: 30 });
    const held = after.held();
    expect(states.now).toMatchObject({ endHeld: true, ready: true, phase: "running" });
    after.intend();
    await held;
    expect(states.now.endHeld).toBeUndefined();
    expect(clock.waits).toEqual([]);
  });

  it("is held until a checkpoint has ended the sandbox", async () => {
    const held = terminationWith({ graceSeconds: 30, podGraceSeconds: 30 }).held();
    states.set({ checkpointing: "c" });
    states.set({ phase: "paused", ready: false });
    await held;
    expect(clock.waits).toEqual([]);
  });

  it("is held during a restore, until the restored sandbox is captured or the restore fails", async () => {
    for (const last of ["paused", "failed"] as const) {
      states.set({ phase: "restoring", ready: false });
      let isHeld = true;
      const held = terminationWith({ graceSeconds: 30, podGraceSeconds: 30 })
        .held()
        .then(() => (isHeld = false));
      if (last === "paused") states.set({ phase: "running", ready: true });
      await Promise.resolve();
      expect([isHeld, clock.waits]).toEqual([true, [19_000]]);
      states.set({ phase: last, ready: false });
      await held;
      expect(clock.waits).toEqual([]);
    }
  });

  it.each([
    [{ graceSeconds: 30, podGraceSeconds: 30 }, 19],
    [{ graceSeconds: 1, podGraceSeconds: 30 }, 28],
    [{ graceSeconds: 300, podGraceSeconds: 300 }, 289],
    [{ graceSeconds: 4, podGraceSeconds: 4 }, 1],
  ])("leaves the entrypoint time to exit: %j", async (config, seconds) => {
    const termination = terminationWith(config);
    const held = termination.held();
    expect(clock.waits).toEqual([seconds * 1_000]);
    clock.advance(seconds * 1_000);
    await held;
    const ended = termination.signalEntrypoint("the cell received SIGTERM");
    expect(signals).toEqual(["TERM"]);
    // The node kills the cell at the end of the Pod's grace period.
    expect(clock.waits[0]).toBeLessThan((config.podGraceSeconds - seconds) * 1_000);
    clock.advance(clock.waits[0] ?? 0);
    await ended;
  });
});
