import { setImmediate as turn } from "node:timers/promises";
import { afterEach, beforeEach, expect, it } from "vitest";
import { ManualClock } from "../../../../test/setup/manual-clock.ts";
import { RametError } from "../../../base/errors.ts";
import { FileEntry } from "../../../cell/client/guest-wire.ts";
import { ProcessWatch } from "./run-command.ts";

/** A stand-in for a guest. A test decides when it responds to each of these requests. */
let requests: PromiseWithResolvers<FileEntry[]>[];
let clock: ManualClock;
let watch: ProcessWatch;

beforeEach(() => {
  requests = [];
  clock = new ManualClock();
  const guest = {
    list: () => {
      const response = Promise.withResolvers<FileEntry[]>();
      requests.push(response);
      return response.promise;
    },
  };
  watch = new ProcessWatch(guest, clock, 10);
});
afterEach(() => {
  watch.stop();
});

/** Advances the clock until the watch sends a request, and responds immediately. */
async function requestAndRespond(processes: number): Promise<void> {
  await pass(1);
  await respond(processes);
}

async function pass(seconds: number): Promise<void> {
  clock.advance(seconds * 1000);
  await turn();
}

async function respond(processes: number): Promise<void> {
  requests.at(-1)?.resolve([...namesOf(processes), "self", "meminfo"].map((name) => FileEntry.parse({ name })));
  await turn();
}

const namesOf = (count: number): string[] => Array.from({ length: count }, (_, index) => `${index + 1}`);

it("reports nothing for a few processes", async () => {
  for (let second = 0; second < 10; second++) await requestAndRespond(499);
  expect(watch.note()).toBe("");
});

it("reports the highest number of many processes", async () => {
  for (const count of [40, 700, 20]) await requestAndRespond(count);
  expect(watch.note()).toBe("; it had 700 processes: check whether a program starts processes without limit");
});

it("reports a guest that did not respond for long, whatever it reported before and after", async () => {
  await requestAndRespond(700);
  await pass(1);
  await pass(8);
  const silent = /^; the sandbox did not respond for 9 s: .* without limit, or whether its node is overloaded$/;
  expect(watch.note()).toMatch(silent);
  await respond(87);
  expect(watch.note()).toMatch(silent);
});

it("ignores a response after the command was stopped", async () => {
  await requestAndRespond(20);
  await pass(1);
  await pass(8.1);
  await respond(4);
  await pass(3);
  expect(watch.note()).toMatch(/did not respond for 9 s/);
  expect(requests).toHaveLength(2);
});

it("does not count time after the command's time limit as silence", async () => {
  for (let second = 0; second < 9; second++) await requestAndRespond(5);
  await pass(30);
  expect(watch.note()).toBe("");
});

it("does not count a failed call as a response", async () => {
  await pass(1);
  requests.at(-1)?.reject(new RametError("GuestUnreachable", "the guest did not respond"));
  await turn();
  await requestAndRespond(600);
  expect(requests).toHaveLength(2);
  expect(watch.note()).toMatch(/had 600 processes/);
});
