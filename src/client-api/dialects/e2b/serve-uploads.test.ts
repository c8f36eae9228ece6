import { PassThrough } from "node:stream";
import { expect, it } from "vitest";
import { ManualClock } from "../../../../test/setup/manual-clock.ts";
import { atPace, readUploadLink, signUploadLink } from "./serve-uploads.ts";

const secret = Buffer.from("secret");
const link = { namespace: "a", digest: "0".repeat(64), owner: "a/key", ownerDigest: "sha256:0", expiresAt: 1000 };

it("is read by whoever has the secret, until it expires", () => {
  const text = signUploadLink(link, secret);
  expect(readUploadLink(text, secret, new Date(999))).toEqual(link);
  expect(() => readUploadLink(text, secret, new Date(1000))).toThrow("has expired");
});

it("is refused if another version has signed it", () => {
  const { ownerDigest: _, ...older } = link;
  const text = signUploadLink(older as typeof link, secret);
  expect(() => readUploadLink(text, secret, new Date(0))).toThrow("is not valid");
});

it("is refused after any change", () => {
  const text = signUploadLink(link, secret);
  const other = signUploadLink({ ...link, namespace: "b" }, Buffer.from("other"));
  for (const changed of [`${text}x`, text.slice(1), other, `${other.split(".")[0]}.${text.split(".")[1]}`, "", "."])
    expect(() => readUploadLink(changed, secret, new Date(0))).toThrow("is not valid");
});

it("ends an upload whose client pauses or drips", async () => {
  const clock = new ManualClock();
  const source = new PassThrough();
  const archive = atPace(source, clock).iterator();
  const read = async () => String(((await archive.next()) as IteratorResult<Buffer>).value);
  source.write("a");
  expect(await read()).toBe("a");
  const dripped = read();
  await expect.poll(() => clock.waits.length).toBe(1);
  clock.advance(40_000);
  source.write("c");
  expect(await dripped).toBe("c");
  const last = read();
  await expect.poll(() => clock.waits.length).toBe(1);
  clock.advance(25_000);
  await expect(last).rejects.toMatchObject({ code: "Timeout" });
  expect(source.destroyed).toBe(true);
});
