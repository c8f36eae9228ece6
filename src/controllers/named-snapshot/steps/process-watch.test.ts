import { setImmediate as turn } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ManualClock } from "../../../../test/setup/manual-clock.ts";
import { RametError } from "../../../base/errors.ts";
import { FileEntry } from "../../../cell/client/guest-wire.ts";
import { ProcessWatch } from "./run-command.ts";

/** Stands in for a guest, whose answers come when a test says so. */
let asked: PromiseWithResolvers<FileEntry[]>[];
let clock: ManualClock;
let watch: ProcessWatch;

beforeEach(() => {
  asked = [];
  clock = new ManualClock();
  const guest = {
    list: () => {
      const answer = Promise.withResolvers<FileEntry[]>();
      asked.push(answer);
      return answer.promise;
    },
  };
  watch = new ProcessWatch(guest, clock, 10);
});
afterEach(() => {
  watch.stop();
});

/** Lets time pass until the guest is asked, and it answers at once. */
async function counted(processes: number): Promise<void> {
  await pass(1);
  await answered(processes);
}

async function pass(seconds: number): Promise<void> {
  clock.advance(seconds * 1000);
  await turn();
}

async function answered(processes: number): Promise<void> {
  asked.at(-1)?.resolve([...namesOf(processes), "self", "meminfo"].map((name) => FileEntry.parse({ name })));
  await turn();
}

const namesOf = (count: number): string[] => Array.from({ length: count }, (_, index) => `${index + 1}`);

it("reports nothing for a few processes", async () => {
  for (let second = 0; second < 10; second++) await counted(499);
  expect(watch.note()).toBe("");
});

it("reports the highest number of many processes", async () => {
  for (const count of [40, 700, 20]) await counted(count);
  expect(watch.note()).toBe("; it had 700 processes: check whether a program starts processes without limit");
});

it("reports a guest that did not respond for long, whatever it reported before and after", async () => {
  await counted(700);
  await pass(1);
  await pass(8);
  const silent = /^; the sandbox did not respond for 9 s: .* without limit, or whether its node is overloaded$/;
  expect(watch.note()).toMatch(silent);
  await answered(87);
  expect(watch.note()).toMatch(silent);
});

it("ignores a response after the command was stopped", async () => {
  await counted(20);
  await pass(1);
  await pass(8.1);
  await answered(4);
  await pass(3);
  expect(watch.note()).toMatch(/did not respond for 9 s/);
  expect(asked).toHaveLength(2);
});

it("does not count time after the command's time limit as silence", async () => {
  for (let second = 0; second < 9; second++) await counted(5);
  await pass(30);
  expect(watch.note()).toBe("");
});

it("does not count a failed call as a response", async () => {
  await pass(1);
  asked.at(-1)?.reject(new RametError("GuestUnreachable", "the guest did not answer"));
  await turn();
  await counted(600);
  expect(asked).toHaveLength(2);
  expect(watch.note()).toMatch(/had 600 processes/);
});
