import { expect, it } from "vitest";
import { expandVariables } from "./container-spec.ts";

// Cases from the Kubernetes documentation and tests of this syntax.
it.each([
  ["$(A)", "a"],
  ["x-$(A)-$(B)", "x-a-b"],
  ["$$(A)", "$(A)"],
  ["$$$(A)", "$a"],
  ["$(UNKNOWN)", "$(UNKNOWN)"],
  ["$A $", "$A $"],
  ["$(A", "$(A"],
  ["cost: 5$$", "cost: 5$"],
])("expands %s to %s", (text, expanded) => {
  const values: Record<string, string> = { A: "a", B: "b" };
  expect(expandVariables(text, (name) => values[name])).toBe(expanded);
});
