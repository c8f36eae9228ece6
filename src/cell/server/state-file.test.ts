import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { States } from "../lifecycle/states.ts";
import { keepStateFile } from "./reports.ts";

let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "ramet-state-"));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

it("writes the steps of a start after a delay, and all other states immediately", async () => {
  const clock = new ManualClock();
  const states = new States();
  const path = join(directory, "state.json");
  const phase = async (): Promise<unknown> => (JSON.parse(await readFile(path, "utf8")) as { phase: unknown }).phase;
  const cell = {
    get state() {
      return states.now;
    },
    onChange: (listener: Parameters<States["onChange"]>[0]) => states.onChange(listener),
  };
  keepStateFile(cell, path, clock);
  expect(await phase()).toBe("preparing");
  states.set({ phase: "booting" });
  clock.advance(299);
  expect(await phase()).toBe("preparing");
  clock.advance(1);
  expect(await phase()).toBe("booting");
  states.set({ phase: "restoring" });
  states.set({ phase: "running", ready: true });
  expect(await phase()).toBe("running");
  expect(clock.waits).toEqual([]);
});
