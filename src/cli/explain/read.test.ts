import { expect, it } from "vitest";
import { latestFirst } from "./read.ts";
import { EventFacts } from "./facts.ts";

const event = (note: string, resourceVersion: string, times: object) =>
  EventFacts.parse({ metadata: { name: note, uid: note, resourceVersion }, note, ...times });
const inSeconds = (note: string, resourceVersion: string, second: string) =>
  event(note, resourceVersion, { deprecatedLastTimestamp: `2026-01-02T03:04:${second}Z` });
const order = (...events: EventFacts[]) => events.toSorted(latestFirst).map(({ note }) => note);

it("puts the Event that was observed later first, also if it was created earlier and its version is lower", () => {
  const repeated = event("repeated", "9", { series: { count: 2, lastObservedTime: "2026-01-02T03:04:07.000001Z" } });
  expect(order(inSeconds("first", "10", "05"), inSeconds("second", "11", "06"), repeated)).toEqual([
    "repeated",
    "second",
    "first",
  ]);
});

it("puts the later write first if both were observed in the same second", () => {
  expect(order(inSeconds("conflict", "98", "05"), inSeconds("not bound", "102", "05"))).toEqual([
    "not bound",
    "conflict",
  ]);
  expect(order(inSeconds("b", "104", "05"), inSeconds("a", "103", "05"))).toEqual(["b", "a"]);
});

it("compares whole seconds if only one of two Events has fractions of them", () => {
  const precise = event("precise", "20", { eventTime: "2026-01-02T03:04:05.678000Z" });
  expect(order(inSeconds("whole", "21", "05"), precise)).toEqual(["whole", "precise"]);
  expect(order(precise, inSeconds("whole", "19", "05"))).toEqual(["precise", "whole"]);
});

it("puts an Event without a time that can be read last", () => {
  expect(
    order(event("none", "30", {}), event("broken", "31", { eventTime: "soon" }), inSeconds("known", "3", "05")),
  ).toEqual(["known", "broken", "none"]);
});
