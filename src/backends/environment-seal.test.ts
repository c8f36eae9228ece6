import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { expect, it } from "vitest";
import { environmentSeal } from "./environment-seal.ts";

const seal = environmentSeal(randomBytes(32));

it("opens what it sealed, in the same namespace only", () => {
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), (text) => {
      const sealed = seal.seal("a", text);
      expect(seal.open("a", sealed)).toBe(Buffer.from(text).toString());
      expect(() => seal.open("b", sealed)).toThrow("cannot be opened");
      expect(() => environmentSeal(randomBytes(32)).open("a", sealed)).toThrow("cannot be opened");
    }),
  );
});

it("refuses a changed request and an invalid key", () => {
  const sealed = seal.seal("a", '{"envVars":{"A":"1"}}');
  for (const changed of [sealed.slice(0, -4), `v2${sealed.slice(2)}`, "v1.", "", `${sealed}AAAA`]) {
    expect(() => seal.open("a", changed)).toThrow("cannot be opened");
  }
  expect(() => environmentSeal(randomBytes(16))).toThrow("has 16 bytes, not 32");
});
