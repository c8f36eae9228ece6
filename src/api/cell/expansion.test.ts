import { expect, test } from "vitest";
import { expandVariables } from "./container-spec.ts";

// The cases of Kubernetes' own documentation and tests of this syntax.
test.each([
  ["$(A)", "a"],
  ["x-$(A)-$(B)", "x-a-b"],
  ["$$(A)", "$(A)"],
  ["$$$(A)", "$a"],
  ["$(UNKNOWN)", "$(UNKNOWN)"],
  ["$A $", "$A $"],
  ["$(A", "$(A"],
  ["cost: 5$$", "cost: 5$"],
])("%s becomes %s", (text, expanded) => {
  const values: Record<string, string> = { A: "a", B: "b" };
  expect(expandVariables(text, (name) => values[name])).toBe(expanded);
});
