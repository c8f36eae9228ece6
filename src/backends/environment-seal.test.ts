import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { expect, it } from "vitest";
import { sealFor, sealIdentity } from "../api/credentials/credential-seal.ts";
import { credentialKeys, environmentSeal } from "./environment-seal.ts";

const key = randomBytes(32);
const seal = environmentSeal(key);

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

it("opens what the client API sealed with the public key, in the same namespace and for this use only", () => {
  const { publicKey } = credentialKeys(key);
  const sealed = (use: "request" | "secret") => `p1.${sealFor(publicKey, sealIdentity("a", use), "text")}`;
  expect(seal.open("a", sealed("request"))).toBe("text");
  expect(() => seal.open("b", sealed("request"))).toThrow("cannot be opened");
  expect(() => seal.open("a", sealed("secret"))).toThrow("cannot be opened");
});

const keys = credentialKeys(randomBytes(32));

it("opens what was sealed for its public key, in the same namespace and for the same use", () => {
  const sealed = sealFor(keys.publicKey, sealIdentity("t", "sandbox"), "the value");
  expect(sealed).not.toContain("the value");
  expect(keys.open(sealIdentity("t", "sandbox"), sealed)).toBe("the value");
  for (const identity of [sealIdentity("other", "sandbox"), sealIdentity("t", "secret")])
    expect(() => keys.open(identity, sealed)).toThrow("cannot be opened");
  expect(() => credentialKeys(randomBytes(32)).open(sealIdentity("t", "sandbox"), sealed)).toThrow("cannot be opened");
  for (const text of ["", "v1.", "v1.AAAA", `${sealed}A`.slice(0, -8), "v2.x"])
    expect(() => keys.open(sealIdentity("t", "sandbox"), text)).toThrow("cannot be opened");
});

it("has one seed for each namespace", () => {
  expect(keys.authoritySeed("a")).toBe(keys.authoritySeed("a"));
  expect(keys.authoritySeed("a")).not.toBe(keys.authoritySeed("b"));
  expect(Buffer.from(keys.authoritySeed("a"), "base64")).toHaveLength(32);
});
