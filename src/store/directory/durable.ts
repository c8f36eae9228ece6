import { constants, type BigIntStats } from "node:fs";
import { type FileHandle, lstat, open, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { errnoOf } from "../../base/errors.ts";

/** Makes directory entries durable. Runs in parallel, because a journaling file system then commits them together. */
export async function syncDirectories(paths: Iterable<string>): Promise<void> {
  await Promise.all(Array.from(paths, syncDirectory));
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}

/** Writes a new file durably. Its name is durable only after `syncDirectories`. */
export async function writeDurably(path: string, bytes: Uint8Array): Promise<void> {
  await writeFile(path, bytes, { flag: "wx", mode: 0o400, flush: true });
}

/** Writes to a new file, and leaves holes where there are only zeros. The end of the file has to be set after the last part. */
export async function writeWithHoles(file: FileHandle, data: Buffer, position: number): Promise<void> {
  for (let at = 0; at < data.length; at += blockBytes) {
    const end = Math.min(at + blockBytes, data.length);
    if (data.subarray(at, end).equals(zeros.subarray(0, end - at))) continue;
    for (let from = at; from < end;) from += (await file.write(data, from, end - from, position + from)).bytesWritten;
  }
}

const blockBytes = 256 * 1024;
const zeros = Buffer.alloc(blockBytes);

/** Reads a small file without following links. `undefined`: the file does not exist. */
export async function readSmallFile(path: string, maximumBytes: number): Promise<Buffer | undefined> {
  // A FIFO would wait for a writer.
  const file = await ifPresent(open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK));
  if (file === undefined) return undefined;
  try {
    const stats = await file.stat();
    const { size } = stats;
    // Reading a directory fails with EISDIR.
    if (!stats.isFile() && !stats.isDirectory()) throw new Error(`${path} is no regular file`);
    if (size > maximumBytes) throw new Error(`${path} has ${size} bytes, which exceeds the limit of ${maximumBytes}`);
    return await file.readFile();
  } finally {
    await file.close();
  }
}

/** Returns the status of a path without following links. `undefined`: the path does not exist. */
export async function statOf(path: string): Promise<BigIntStats | undefined> {
  return ifPresent(lstat(path, { bigint: true }));
}

/** Returns the status of a path and of everything below it, without following links. What disappears meanwhile is left out. */
export async function statusesBelow(path: string): Promise<BigIntStats[]> {
  const stats = await statOf(path);
  if (stats === undefined) return [];
  if (!stats.isDirectory()) return [stats];
  const names = (await ifPresent(readdir(path))) ?? [];
  return [stats, ...(await Promise.all(names.map((name) => statusesBelow(join(path, name))))).flat()];
}

/** The same of the files below a path. */
export async function filesBelow(path: string): Promise<BigIntStats[]> {
  return (await statusesBelow(path)).filter((stats) => !stats.isDirectory());
}

/** The size of these files. */
export function bytesOf(files: readonly BigIntStats[]): number {
  return files.reduce((sum, { size }) => sum + Number(size), 0);
}

/** Returns `undefined` instead of failing with ENOENT. */
export async function ifPresent<T>(operation: Promise<T>): Promise<T | undefined> {
  return unless(operation, "ENOENT");
}

/** Returns `undefined` instead of failing with one of these codes. */
export async function unless<T>(operation: Promise<T>, ...codes: string[]): Promise<T | undefined> {
  try {
    return await operation;
  } catch (error) {
    if (codes.includes(errnoOf(error) ?? "")) return undefined;
    throw error;
  }
}

/** Returns false instead of failing with one of these codes. */
export async function succeeds(operation: Promise<void>, ...codes: string[]): Promise<boolean> {
  return (
    (await unless(
      operation.then(() => true),
      ...codes,
    )) ?? false
  );
}
