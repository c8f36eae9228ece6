import { createCipheriv, createDecipheriv, randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";

/** The key of a file, and what identifies the file: its bytes cannot be used as those of another one. */
export interface FileKey {
  /** 32 bytes. */
  dataKey: Buffer;
  /** The namespace, the checkpoint id and the name of the file. */
  identity: string;
}

/**
 * Encrypts a file with AES-256-GCM, chunk by chunk (the STREAM construction of Hoang, Reyhanitabar, Rogaway and Vizár). The nonce
 * of a chunk has a random prefix for the file, the number of the chunk, and whether it is the last one, so chunks cannot be
 * exchanged, repeated or cut off. The format is the header, then chunks of 1 MiB and a tag of 16 bytes each.
 */
export async function encryptFile(from: string, to: string, key: FileKey, signal?: AbortSignal): Promise<void> {
  const prefix = randomBytes(prefixBytes);
  const flags = constants.O_RDONLY | constants.O_NOFOLLOW;
  await withFiles({ from, flags, to }, async (source, target) => {
    const { size } = await source.stat();
    await target.writeFile(Buffer.concat([magic, prefix]));
    const last = Math.max(0, Math.ceil(size / chunkBytes) - 1);
    const chunk = Buffer.allocUnsafeSlow(chunkBytes);
    for (let at = 0; at <= last; at++) {
      signal?.throwIfAborted();
      const plain = await readExactly(source, chunk, at === last ? size - at * chunkBytes : chunkBytes);
      const cipher = createCipheriv(algorithm, key.dataKey, nonce(prefix, at, at === last));
      cipher.setAAD(Buffer.from(key.identity));
      await target.writeFile([cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
    }
  });
}

/** Reverses {@link encryptFile}. @throws Error if the file was changed, or encrypted with another key or as another file */
export async function decryptFile(from: string, to: string, key: FileKey): Promise<void> {
  // A store that is mounted read-only gives symbolic links to open files.
  await withFiles({ from, flags: constants.O_RDONLY, to }, async (source, target) => {
    const { size } = await source.stat();
    const header = await readExactly(source, Buffer.alloc(magic.length + prefixBytes), magic.length + prefixBytes);
    if (!header.subarray(0, magic.length).equals(magic)) throw new Error("it is not an encrypted file");
    const prefix = header.subarray(magic.length);
    const bytes = size - header.length;
    const last = Math.max(0, Math.ceil(bytes / sealedBytes) - 1);
    const chunk = Buffer.allocUnsafeSlow(sealedBytes);
    for (let at = 0; at <= last; at++) {
      const sealed = await readExactly(source, chunk, at === last ? bytes - at * sealedBytes : sealedBytes);
      if (sealed.length < tagBytes) throw new Error("it ends early");
      const decipher = createDecipheriv(algorithm, key.dataKey, nonce(prefix, at, at === last));
      decipher.setAAD(Buffer.from(key.identity));
      decipher.setAuthTag(sealed.subarray(sealed.length - tagBytes));
      await target.writeFile([decipher.update(sealed.subarray(0, sealed.length - tagBytes)), decipher.final()]);
    }
  });
}

const algorithm = "aes-256-gcm";
const magic = Buffer.from("RAMETENC1");
const prefixBytes = 7;
const tagBytes = 16;
/** A chunk takes a millisecond, so a cell stays responsive. */
const chunkBytes = 1 << 20;
const sealedBytes = chunkBytes + tagBytes;

function nonce(prefix: Buffer, at: number, isLast: boolean): Buffer {
  const rest = Buffer.alloc(5);
  rest.writeUInt32BE(at);
  rest.writeUInt8(isLast ? 1 : 0, 4);
  return Buffer.concat([prefix, rest]);
}

/** `work` writes with `writeFile`, which appends to an open file, and repeats a write that a nearly full disk cuts short. */
async function withFiles(
  { from, flags, to }: { from: string; flags: number; to: string },
  work: (source: FileHandle, target: FileHandle) => Promise<void>,
): Promise<void> {
  const source = await open(from, flags);
  try {
    const target = await open(to, "wx", 0o600);
    try {
      await work(source, target);
    } finally {
      await target.close();
    }
  } finally {
    await source.close();
  }
}

async function readExactly(file: FileHandle, into: Buffer, length: number): Promise<Buffer> {
  for (let read = 0; read < length;) {
    const { bytesRead } = await file.read(into, read, length - read);
    if (bytesRead === 0) throw new Error("it became shorter");
    read += bytesRead;
  }
  return into.subarray(0, length);
}
