import { expect, it } from "vitest";
import { draft } from "../../../test/contract/store/draft.ts";
import { decodeManifest, digestOf, encodeManifest, manifestFrom } from "../manifest.ts";
import {
  attemptExpiry,
  decodePublication,
  encodePublication,
  fileKey,
  isPublicationUrl,
  kindOf,
  newAttempt,
  newProbeKey,
  publicationKey,
} from "./layout.ts";

const ref = { namespace: "team-a", checkpointId: "c1" };
const manifest = manifestFrom(
  ref,
  [{ name: "pages.img", sizeBytes: 3, digest: digestOf(Buffer.from("abc")) }],
  draft(),
);

it("a manifest has the same bytes and digest in the publication of every attempt", () => {
  const { digest } = encodeManifest(manifest);
  for (const expiresAt of [1_795_000_000_000, 1_795_000_060_000]) {
    const attempt = newAttempt(expiresAt);
    const publication = decodePublication(encodePublication(attempt, manifest), ref);
    expect(publication.attempt).toBe(attempt);
    expect(decodeManifest(publication.manifestBytes, ref, digest)).toEqual(manifest);
  }
});

it.each([
  ["not JSON", "{", "CheckpointLost"],
  ["without an attempt", `{"v":1,"manifest":{}}`, "CheckpointLost"],
  ["of an attempt that climbs", `{"v":1,"attempt":"../x","manifest":{}}`, "CheckpointLost"],
  ["of a newer version", `{"v":2}`, "CheckpointTooNew"],
])("rejects a publication that is %s", (_, text, code) => {
  expect(() => decodePublication(Buffer.from(text), ref)).toThrow(expect.objectContaining({ code }));
});

it("identifies the kind of each key, and of no other text", () => {
  const attempt = newAttempt(1_795_000_000_000);
  expect(attemptExpiry(attempt)).toBe(1_795_000_000_000);
  expect(kindOf(publicationKey(ref))).toEqual({ kind: "publication", ref });
  expect(kindOf(fileKey(ref, attempt, 3))).toEqual({ kind: "file", ref, attempt });
  expect(kindOf(newProbeKey())).toEqual({ kind: "probe" });
  expect(kindOf("store.json")).toEqual({ kind: "owner" });
  const unknown = [
    "notes.txt",
    "team-a",
    "team-a/c1",
    "team-a/c1/x/0",
    `team-a/c1/${attempt}/0/1`,
    `A/c1/manifest.json`,
  ];
  for (const key of unknown) expect(kindOf(key), key).toBeUndefined();
});

it("finds the checkpoint in a signed URL, with the bucket in the path or in the host", () => {
  expect(isPublicationUrl("https://s3.example/bucket/x/team-a/c1/manifest.json?X-Amz-Signature=1", ref)).toBe(true);
  expect(isPublicationUrl("https://bucket.s3.example/team-a/c1/manifest.json", ref)).toBe(true);
  expect(isPublicationUrl("https://bucket.s3.example/team-b/c1/manifest.json", ref)).toBe(false);
});
