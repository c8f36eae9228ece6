import { expect, it } from "vitest";
import { LogTail } from "./run-command.ts";
import { lastLines } from "./step.ts";

it("keeps the end of a long log, and notes that it was truncated", () => {
  const log = new LogTail();
  for (let line = 0; line < 20_000; line++) log.add(Buffer.from(`line ${line}\n`));
  expect(log.text()).toMatch(/^\(earlier output was truncated\)\n/);
  expect(log.text()).toMatch(/line 19999\n$/);
  expect(log.text().length).toBeLessThan(70_000);
});

it("keeps a single chunk that is too large, and drops NUL", () => {
  const log = new LogTail();
  log.add(Buffer.alloc(100_000, "x"));
  expect(log.text().length).toBe(100_000);
  log.clear();
  log.add(Buffer.from("a\0b"));
  expect(log.text()).toBe("ab");
});

it("shortens a log to whole lines at its end", () => {
  expect(lastLines("a\nb\n")).toBe("a\nb\n");
  expect(lastLines("")).toBe("");
  const many = Array.from({ length: 100 }, (_, line) => `line ${line}`).join("\n") + "\n";
  expect(lastLines(many).split("\n")).toHaveLength(21);
  expect(lastLines(many)).toMatch(/^line 80\n[^]*line 99\n$/);
  expect(lastLines(`${"x".repeat(5_000)}\nend\n`)).toBe("end\n");
  expect(lastLines("y".repeat(5_000))).toHaveLength(2_048);
});
