import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Lines } from "./agent-process.ts";

describe("Lines", () => {
  it("has the lines of the whole text, however it is cut", () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: "grapheme" })), fc.nat(7), (texts, step) => {
        const data = Buffer.from(texts.join("\n"));
        const lines = new Lines();
        const found: string[] = [];
        for (let at = 0; at < data.length; at += step + 1) found.push(...lines.add(data.subarray(at, at + step + 1)));
        found.push(...lines.end());
        const expected = data.toString().split("\n");
        if (expected.at(-1) === "") expected.pop();
        expect(found).toEqual(expected);
      }),
    );
  });

  it("cuts a line that does not end", () => {
    const lines = new Lines();
    expect(lines.add(Buffer.alloc(65_537, "a"))).toEqual(["a".repeat(65_537)]);
    expect(lines.end()).toEqual([]);
  });
});
