import { expect, it } from "vitest";
import { fileLinkIn, isPast, isSignedWith } from "./own-tokens.ts";

const token = "0tQG31xiMp0IOQfaz9dcwi72L1CPo8e0";
// From the tests of E2B's SDKs (e2b-dev/E2B, packages/js-sdk/tests/sandbox/secure.test.ts).
const known = "v1_gUtH/s9YCJWgCizjfUxuWfhFE4QSydOWEIIvfLwDr6E";
const now = 1_700_000_000_000;

function check(query: Record<string, string>, method = "GET", at = "/files", own = token) {
  const link = fileLinkIn({ method, url: `${at}?${new URLSearchParams(query).toString()}` });
  if (link === undefined) return undefined;
  if (!isSignedWith(link, own)) return "invalid";
  return isPast(link.expiry, now) ? "expired" : "valid";
}

const signed = { path: "hello.txt", username: "user", signature: known };

it("accepts the signature that E2B's SDKs make for a path, an operation and a user", () => {
  expect(check(signed)).toBe("valid");
  expect(check(signed, "HEAD")).toBe("valid");
});

it("rejects a signature for another path, operation, user, sandbox or expiry", () => {
  expect(check({ ...signed, path: "other.txt" })).toBe("invalid");
  expect(check({ ...signed, path: "" })).toBe("invalid");
  expect(check({ ...signed, username: "root" })).toBe("invalid");
  expect(check({ path: "hello.txt", signature: known })).toBe("invalid");
  expect(check(signed, "POST")).toBe("invalid");
  expect(check({ ...signed, signature_expiration: "9999999999" })).toBe("invalid");
  expect(check(signed, "GET", "/files", "the token of another sandbox")).toBe("invalid");
  for (const signature of ["", "v1_", known.slice(0, -1), `${known}=`, known.toLowerCase()])
    expect(check({ ...signed, signature })).toBe("invalid");
});

it("rejects a signature after its expiry, and one whose expiry is no number of seconds", () => {
  const withExpiry = (expiry: string, signature: string) =>
    check({ ...signed, signature_expiration: expiry, signature });
  expect(withExpiry("1700000000", "v1_x1gU0mV8Kid6FIK4Jop2wrli3RLOriJgoanr76XYFKM")).toBe("valid");
  expect(withExpiry("1699999999", "v1_YfxGHxC1wy+WbnuVqNlsh1kx9W94mhwd73lgtdGaP34")).toBe("expired");
  expect(withExpiry("soon", "v1_iFj/uTUtwWLG8o5/apuYDkIkLJn9oaHK4UOfT7T8lgw")).toBe("expired");
  expect(withExpiry("9999999999", "v1_x1gU0mV8Kid6FIK4Jop2wrli3RLOriJgoanr76XYFKM")).toBe("invalid");
});

it("applies to no other request", () => {
  expect(check(signed, "DELETE")).toBeUndefined();
  expect(check(signed, "GET", "/files/compose")).toBeUndefined();
  expect(check(signed, "GET", "//files")).toBeUndefined();
  expect(check(signed, "GET", "/process.Process/Start")).toBeUndefined();
  expect(check({ path: "hello.txt" })).toBeUndefined();
  expect(fileLinkIn({ method: "GET", url: "/files" })).toBeUndefined();
});
