import { randomBytes } from "node:crypto";
import { expect, it } from "vitest";
import { sealFor, sealIdentity } from "../api/credentials/credential-seal.ts";
import { credentialKeys } from "./credential-keys.ts";

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
