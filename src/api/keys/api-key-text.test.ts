import { randomBytes } from "node:crypto";
import fc from "fast-check";
import { expect, it } from "vitest";
import { apiKeyDigest, apiKeyFormats, apiKeyId, newApiKey, readApiKey } from "./api-key-text.ts";

const name = fc.stringMatching(/^[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?$/);
const at = fc.record({ namespace: name, name });
const format = fc.constantFrom(...apiKeyFormats);
const secret = fc.uint8Array({ minLength: 16, maxLength: 16 });

it("makes keys that their clients accept", () => {
  const random = () => Buffer.alloc(16, 0xab);
  const make = (of: (typeof apiKeyFormats)[number]) =>
    newApiKey({ namespace: "team-a", name: "ci", format: of, random }).text;
  const digits = `20cc1f7e357861d2${"ab".repeat(16)}`;
  expect(apiKeyFormats.map(make)).toEqual([`e2b_${digits}`, `s0_ramet_${digits}`, digits]);
  // As `printf %s "team-a/ci:$digits" | sha256sum` prints it.
  const digest = "sha256:d47f32a2709d8dae1ce79c1c4d03b983a478d0533def8cab2ff7104f2648f4e5";
  expect(apiKeyDigest({ namespace: "team-a", name: "ci" }, digits)).toBe(digest);
});

it("reads each key that it made, with the id and the digest of its ApiKey", () => {
  fc.assert(
    fc.property(at, format, secret, (of, form, bytes) => {
      const { text, digest } = newApiKey({ ...of, format: form, random: () => bytes });
      const read = readApiKey(text);
      expect(read?.id).toBe(apiKeyId(of));
      expect(apiKeyDigest(of, read?.digits ?? "")).toBe(digest);
      expect(digest).toMatch(/^sha256:[0-9a-f]{64}$/);
      expect(digest).not.toContain(Buffer.from(bytes).toString("hex"));
    }),
  );
});

it("gives the same key another digest in another ApiKey", () => {
  fc.assert(
    fc.property(at, at, secret, (one, other, bytes) => {
      fc.pre(one.namespace !== other.namespace || one.name !== other.name);
      const digits = apiKeyId(one) + Buffer.from(bytes).toString("hex");
      expect(apiKeyId(one)).not.toBe(apiKeyId(other));
      expect(apiKeyDigest(one, digits)).not.toBe(apiKeyDigest(other, digits));
    }),
  );
});

it("makes a different key each time", () => {
  const make = () => newApiKey({ namespace: "a", name: "b", format: "e2b", random: randomBytes }).text;
  expect(new Set(Array.from({ length: 100 }, make)).size).toBe(100);
});

it("refuses a random source that returns too little", () => {
  const random = () => new Uint8Array(15);
  expect(() => newApiKey({ namespace: "a", name: "b", format: "e2b", random })).toThrow("returned 15 bytes");
});

const digits = "0123456789abcdef".repeat(3);

it("reads a Sandbox0 key of any region", () => {
  expect(readApiKey(`s0_eu-west-1_${digits}`)).toEqual({ id: "0123456789abcdef", digits });
  expect(readApiKey(`s0_${"a".repeat(63)}_${digits}`)).toBeDefined();
});

it.each([
  "",
  "e2b_",
  `E2B_${digits}`,
  `e2b_${digits.toUpperCase()}`,
  `e2b_${digits}0`,
  `e2b_${digits.slice(1)}`,
  ` ${digits}`,
  `${digits}\n`,
  `s0_${digits}`,
  `s0__${digits}`,
  `s0_a_b_${digits}`,
  `s0_${"a".repeat(64)}_${digits}`,
  `sk_${digits}`,
])("does not read %j", (text) => {
  expect(readApiKey(text)).toBeUndefined();
});

it("reads no text that it did not make", () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 300 }), (text) => {
      expect(readApiKey(text)).toBeUndefined();
    }),
  );
});
