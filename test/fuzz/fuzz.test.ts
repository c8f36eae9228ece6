import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { targets } from "./targets.ts";

/** The short form of `npm run fuzz`: the same inputs in each run, and first those that once failed. */
const timeoutMilliseconds = 120_000;

describe("reads any input of a stranger without a defect:", () => {
  it.each(targets)("$name", { timeout: timeoutMilliseconds }, async ({ shortInputs, open }) => {
    const opened = await open();
    try {
      const details = await opened.run({ numRuns: shortInputs, seed: 1 });
      expect(details.failed, fc.defaultReportMessage(details) ?? "").toBe(false);
    } finally {
      await opened.close();
    }
  });
});
