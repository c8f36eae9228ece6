import type { SignedRequest } from "../../api/cell/grant.ts";

/**
 * What the driver needs of an object store, below one prefix of one bucket: the client of S3 is one, those of other clouds have
 * the same. A key is relative to the prefix. What is written and listed is seen at once by everybody.
 *
 * Every method throws RametError `StoreUnavailable`, `StoreReadOnly`, `StoreFull` or `Canceled`.
 */
export interface Bucket {
  /** For people, without a slash at the end: `s3://bucket/prefix`. */
  readonly name: string;
  /** What one PUT may bring at most. */
  readonly largestObjectBytes: number;
  /** Writes an object where there is none, and says whether there was none; of many at once, one writes. */
  putIfAbsent(key: string, bytes: Uint8Array): Promise<boolean>;
  /** An object's bytes from the first to the last; `undefined`: there is none. */
  read(key: string, signal?: AbortSignal): Promise<AsyncIterable<Uint8Array> | undefined>;
  /** All objects whose key begins with `prefix`. */
  list(prefix: string, signal?: AbortSignal): AsyncIterable<StoredObject>;
  /** One that is gone is done. */
  delete(key: string): Promise<void>;
  /** A GET that whoever has it may make for that long. */
  signGet(key: string, ttlMilliseconds: number): Promise<SignedRequest>;
  /** Such a PUT, which is refused with the status 412 if there is an object. */
  signPutIfAbsent(key: string, ttlMilliseconds: number): Promise<SignedRequest>;
}

export interface StoredObject {
  key: string;
  sizeBytes: number;
  /** When it was written, in milliseconds since 1970. */
  writtenAt: number;
}

/** A small object as a whole; `undefined`: there is none. */
export async function readWhole(bucket: Bucket, key: string): Promise<Buffer | undefined> {
  const chunks = await bucket.read(key);
  if (chunks === undefined) return undefined;
  const all: Uint8Array[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return Buffer.concat(all);
}
