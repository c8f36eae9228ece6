import { randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { decryptFile, encryptFile } from "./cipher.ts";

let directory: string;
let files = 0;
beforeAll(async () => (directory = await mkdtemp(join(tmpdir(), "ramet-cipher-"))));
afterAll(() => rm(directory, { recursive: true }));

const key = { dataKey: randomBytes(32), identity: "t/c/pages.img" };
const chunk = 1 << 20;
const sealedChunk = chunk + 16;
const headerBytes = 16;

const path = (): string => join(directory, String(files++));

async function written(content: Buffer): Promise<string> {
  const at = path();
  await writeFile(at, content);
  return at;
}

async function encrypted(content: Buffer): Promise<Buffer> {
  const to = path();
  await encryptFile(await written(content), to, key);
  return readFile(to);
}

async function decrypted(content: Buffer, as = key): Promise<Buffer> {
  const to = path();
  await decryptFile(await written(content), to, as);
  return readFile(to);
}

it.each([0, 1, chunk - 1, chunk, chunk + 1, 2 * chunk, 2 * chunk + 5])("returns %d bytes unchanged", async (size) => {
  const content = randomBytes(size);
  const sealed = await encrypted(content);
  expect(sealed.length).toBe(headerBytes + size + 16 * Math.max(1, Math.ceil(size / chunk)));
  expect((await decrypted(sealed)).equals(content)).toBe(true);
});

it("encrypts equal content differently each time", async () => {
  const content = Buffer.from("equal");
  expect((await encrypted(content)).equals(await encrypted(content))).toBe(false);
});

it("notices every change: of a bit, of the length, of the order of chunks, of the key, and of the file's identity", async () => {
  const sealed = await encrypted(randomBytes(2 * chunk + 5));
  const flipped = (at: number): Buffer => {
    const copy = Buffer.from(sealed);
    copy[at] = copy[at]! ^ 1;
    return copy;
  };
  const part = (from: number, to: number): Buffer => sealed.subarray(headerBytes + from, headerBytes + to);
  const header = sealed.subarray(0, headerBytes);
  const [first, second, third] = [
    part(0, sealedChunk),
    part(sealedChunk, 2 * sealedChunk),
    part(2 * sealedChunk, Infinity),
  ];
  const changed = [
    ...[0, headerBytes - 1, headerBytes, sealedChunk, sealed.length - 1].map(flipped),
    Buffer.concat([header, second, first, third]),
    Buffer.concat([header, first, first, third]),
    Buffer.concat([header, first, second]),
    Buffer.concat([header, first]),
    header,
    Buffer.alloc(0),
    sealed.subarray(0, sealed.length - 1),
    Buffer.concat([sealed, Buffer.from("x")]),
  ];
  for (const content of changed) await expect(decrypted(content)).rejects.toThrow();
  await expect(decrypted(sealed, { ...key, dataKey: randomBytes(32) })).rejects.toThrow();
  await expect(decrypted(sealed, { ...key, identity: "t/c/checkpoint.img" })).rejects.toThrow();
});
