import { expect, it } from "vitest";
import { defaultDomain, parseDomain } from "./cluster-directory.ts";

it.each([defaultDomain, "127-0-0-1.example.org", "a.b"])("accepts %s", (domain) => {
  expect(parseDomain(domain)).toBe(domain);
  expect(parseDomain(domain.toUpperCase())).toBe(domain);
});

it.each(["", "localhost", "a..b", "-a.b", "a.b:80", "*.a.b", "a b.c", "../a.b", "127.0.0.1", `${"a.".repeat(100)}b`])(
  "rejects %j",
  (domain) => {
    expect(() => parseDomain(domain)).toThrow("Invalid domain");
  },
);
