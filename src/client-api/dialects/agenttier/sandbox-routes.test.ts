import { expect, it } from "vitest";
import { defaultCloneName } from "./sandbox-routes.ts";

const now = new Date(1_780_023_662_000);

it.each([
  ["my-sandbox", "my-sandbox-clone-1780023662"],
  ["a".repeat(63), `${"a".repeat(46)}-clone-1780023662`],
  [`${"a".repeat(45)}-b`, `${"a".repeat(45)}-clone-1780023662`],
])("names a clone of %s, as a DNS label", (source, name) => {
  expect(defaultCloneName(source, now)).toBe(name);
  expect(name.length).toBeLessThanOrEqual(63);
});
