import { expect, test } from "vitest";
import { LogTail } from "./log-tail.ts";
import { lastLines } from "./step.ts";

test("of a long log the end is kept, and that the beginning is not is told", () => {
  const log = new LogTail();
  for (let line = 0; line < 20_000; line++) log.add(Buffer.from(`line ${line}\n`));
  expect(log.text()).toMatch(/^\(the beginning is cut off\)\n/);
  expect(log.text()).toMatch(/line 19999\n$/);
  expect(log.text().length).toBeLessThan(70_000);
});

test("one piece that is too large is kept, and NUL is left out", () => {
  const log = new LogTail();
  log.add(Buffer.alloc(100_000, "x"));
  expect(log.text().length).toBe(100_000);
  log.clear();
  log.add(Buffer.from("a\0b"));
  expect(log.text()).toBe("ab");
});

test("a status has whole lines of the end", () => {
  expect(lastLines("a\nb\n")).toBe("a\nb\n");
  expect(lastLines("")).toBe("");
  const many = Array.from({ length: 100 }, (_, line) => `line ${line}`).join("\n") + "\n";
  expect(lastLines(many).split("\n")).toHaveLength(21);
  expect(lastLines(many)).toMatch(/^line 80\n[^]*line 99\n$/);
  expect(lastLines(`${"x".repeat(5_000)}\nend\n`)).toBe("end\n");
  expect(lastLines("y".repeat(5_000))).toHaveLength(2_048);
});
