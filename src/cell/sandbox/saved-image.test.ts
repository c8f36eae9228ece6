import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { memoryPagesIn } from "./saved-image.ts";

/** A number, or bytes, as a field of a message of Protocol Buffers. */
function field(number: number, value: number | Buffer): Buffer {
  if (typeof value === "number") return Buffer.of(number * 8, ...varint(value));
  return Buffer.concat([Buffer.of(number * 8 + 2, ...varint(value.length)), value]);
}

function varint(value: number): number[] {
  return value < 128 ? [value] : [(value % 128) + 128, ...varint(Math.floor(value / 128))];
}

const range = (start: number, end: number, committed: boolean): Buffer =>
  field(3, Buffer.concat([field(1, start), field(2, end), field(3, 4), ...(committed ? [field(5, 1)] : [])]));

function metadata(...fields: Buffer[]): Buffer {
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(Buffer.concat(fields).length));
  return Buffer.concat([length, ...fields]);
}

const large = 2 ** 41;
const written = metadata(
  field(1, 1),
  field(2, field(1, 1)),
  range(0, 4096, true),
  range(4096, 16_384, false),
  range(large, large + 8192, true),
);
/** Those of the writable layer follow. */
const ofFiles = metadata(range(0, 40_960, true));

it.each<[string, Buffer, number, number | undefined]>([
  ["a memory image", Buffer.concat([written, ofFiles]), 53_248, 12_288],
  ["one without files", written, 12_288, 12_288],
  ["an incomplete one", written.subarray(0, -3), 12_288, undefined],
  ["more pages than there are", written, 4096, undefined],
  ["an unknown kind of field", metadata(Buffer.of(3 * 8 + 5, 0, 0, 0, 0)), 0, undefined],
  ["an empty file", Buffer.alloc(0), 0, undefined],
])("tells how many pages of %s are of memory, if it can", async (_, content, pagesBytes, expected) => {
  const directory = await mkdtemp(join(tmpdir(), "ramet-pages-"));
  onTestFinished(() => rm(directory, { recursive: true }));
  await writeFile(join(directory, "pages_meta.img"), content);
  await writeFile(join(directory, "pages.img"), Buffer.alloc(pagesBytes));
  expect(await memoryPagesIn(directory)).toBe(expected);
});
