import fc from "fast-check";
import { expect, it } from "vitest";
import { checkLabel, checkName, generateName } from "./options.ts";

it("accepts DNS labels and rejects everything else", () => {
  for (const name of ["a", "0", "a-b", "x".repeat(63)]) {
    expect(() => {
      checkLabel(name, "--name");
    }).not.toThrow();
  }
  for (const name of ["", "-a", "a-", "A", "a.b", "a_b", "x".repeat(64), "a\n"]) {
    expect(() => {
      checkLabel(name, "--name");
    }).toThrow("Invalid --name, not a DNS label");
  }
  expect(() => {
    checkName("a.b-c", "--name");
    checkName("a..b", "--name");
  }).toThrow('Invalid --name, not an object name: "a..b"');
});

it("generates labels from every valid name", () => {
  const name = fc.stringMatching(/^[a-z0-9]([-a-z0-9.]{0,80}[a-z0-9])?$/);
  fc.assert(
    fc.property(name, (base) => {
      checkLabel(`${generateName(base)}x7k2p`, "the name");
    }),
  );
});
