import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { draft, secret } from "../../test/contract/store/draft.ts";
import { canonicalJson } from "../base/canonical-json.ts";
import { decodeManifest, digestOf, encodeManifest, manifestFrom, piecesOf } from "./manifest.ts";

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

it("has a digest of its files that is equal if they are, whatever its memory is", () => {
  const [a, b] = ["a", "b"].map((text) => digestOf(Buffer.from(text))) as [string, string];
  const pieces = (memory: string, written: string, changes = {}) => {
    const pages = { name: "pages.img", sizeBytes: 8192, digest: digestOf(Buffer.from(memory + written)) };
    const split = { atBytes: 4096, digests: [memory, written] as [string, string] };
    return piecesOf(manifestFrom(ref, [{ ...pages, split }], draft(changes)));
  };
  const [memory, written] = pieces(a, b) ?? [];
  expect(memory).toMatchObject({ content: "memory", sizeBytes: 4096 });
  expect(written).toMatchObject({ content: "filesystem", sizeBytes: 4096 });
  expect(pieces(b, b)).toEqual([
    { ...memory, digest: expect.not.stringMatching(memory?.digest ?? "") as string },
    written,
  ]);
  expect(pieces(a, a)?.[1]).not.toEqual(written);
  // Files alone are one piece; memory of an earlier release is not told apart.
  const ofFiles = draft({ contents: ["filesystem"] });
  expect(piecesOf(manifestFrom(ref, files, ofFiles))).toMatchObject([{ content: "filesystem", sizeBytes: 3 }]);
  expect(piecesOf(manifestFrom(ref, files, draft()))).toBeUndefined();
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
