import { setImmediate as turn } from "node:timers/promises";
import { afterEach, beforeEach, expect, test } from "vitest";
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

test("of a few processes nothing is told", async () => {
  for (let second = 0; second < 10; second++) await counted(499);
  expect(watch.note()).toBe("");
});

test("of many processes the greatest number is told", async () => {
  for (const count of [40, 700, 20]) await counted(count);
  expect(watch.note()).toBe("; it had 700 processes: look at whether a program starts others without end");
});

test("a guest that has not answered for long is told of, whatever it said before and after", async () => {
  await counted(700);
  await pass(1);
  await pass(8);
  const silent = /^; the sandbox had not answered for 9 s: .* without end, or at how busy its node is$/;
  expect(watch.note()).toMatch(silent);
  await answered(87);
  expect(watch.note()).toMatch(silent);
});

test("an answer that comes when the command was ended says nothing of how it was before", async () => {
  await counted(20);
  await pass(1);
  await pass(8.1);
  await answered(4);
  await pass(3);
  expect(watch.note()).toMatch(/had not answered for 9 s/);
  expect(asked).toHaveLength(2);
});

test("what comes after the command's time does not count as silence", async () => {
  for (let second = 0; second < 9; second++) await counted(5);
  await pass(30);
  expect(watch.note()).toBe("");
});

test("a call that fails is no answer, and the next may be one", async () => {
  await pass(1);
  asked.at(-1)?.reject(new RametError("GuestUnreachable", "the guest did not answer"));
  await turn();
  await counted(600);
  expect(asked).toHaveLength(2);
  expect(watch.note()).toMatch(/had 600 processes/);
});
