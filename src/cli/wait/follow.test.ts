import { expect, it } from "vitest";
import { ManualClock } from "../../../test/setup/manual-clock.ts";
import { memoryIo } from "../../../test/setup/memory-io.ts";
import { startProgress } from "./follow.ts";

it("prints what a slow operation waits for where stderr is no terminal, and nothing of a fast one", () => {
  const clock = new ManualClock();
  const io = memoryIo({ clock });
  const report = startProgress(io, true);
  report("sandbox a: Pending");
  clock.advance(9_999);
  report("sandbox a: Pending: no node takes the Pod");
  expect(io.written("stderr")).toBe("");
  clock.advance(1);
  report("sandbox a: Pending: no node takes the Pod");
  report("sandbox a: Pending: no node takes the Pod");
  expect(io.written("stderr")).toBe("  10.0s  sandbox a: Pending: no node takes the Pod\n");
});

it("prints no progress into the output of programs", () => {
  const clock = new ManualClock();
  const io = memoryIo({ clock });
  const report = startProgress(io);
  clock.advance(60_000);
  report("sandbox a: Pending");
  expect(io.written("stderr")).toBe("");
});
