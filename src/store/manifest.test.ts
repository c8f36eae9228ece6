import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { draft, secret } from "../../test/contract/store/draft.ts";
import { canonicalJson } from "../base/canonical-json.ts";
import { decodeManifest, digestOf, encodeManifest, manifestFrom } from "./manifest.ts";

const ref = { namespace: "team-a", checkpointId: "c1" };
const files = [
  { name: "pages.img", sizeBytes: 3, digest: digestOf(Buffer.from("abc")) },
  { name: "checkpoint.img", sizeBytes: 0, digest: digestOf(Buffer.from("")) },
];

it("has a digest that does not depend on the order of its fields and files", () => {
  const one = encodeManifest(manifestFrom(ref, files, draft()));
  const reversed = Object.fromEntries(Object.entries(draft()).reverse()) as unknown as ReturnType<typeof draft>;
  const two = encodeManifest(manifestFrom({ ...ref }, files.toReversed(), reversed));
  expect(two.digest).toBe(one.digest);
  // Pinned, because published manifests must keep their digests.
  expect(one.digest).toMatchInlineSnapshot(`"sha256:5abaafbc468e9fcf710c46f977fca7bcf2c99f8f810a67fe0e551622ae3a7cb9"`);
  expect(decodeManifest(one.bytes, ref, one.digest).files.map((file) => file.name)).toEqual([
    "checkpoint.img",
    "pages.img",
  ]);
  expect(one.bytes.toString()).not.toContain(secret);
});

it("rejects an invalid draft and names the field", () => {
  expect(() => manifestFrom(ref, files, draft({ cutAt: "yesterday" }))).toThrow(/not valid: cutAt/);
  expect(() => manifestFrom(ref, [files[0]!, files[0]!], draft())).toThrow(/not valid: files/);
});

describe("canonical JSON", () => {
  it("is equal for equal values and equivalent to JSON", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = canonicalJson(value);
        expect(canonicalJson(shuffled(value))).toBe(text);
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });
});

function shuffled(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shuffled);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).reverse();
  return Object.fromEntries(entries.map(([key, inner]) => [key, shuffled(inner)]));
}
