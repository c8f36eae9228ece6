import type { SignedRequest } from "../../api/wire/grant.ts";

/**
 * The object store operations that the driver needs, within one prefix of one bucket. Each cloud's client implements them.
 * Keys are relative to the prefix. Writes and listings must be strongly consistent.
 *
 * Every method throws RametError `StoreUnavailable`, `StoreReadOnly`, `StoreFull` or `Canceled`.
 */
export interface Bucket {
  /** The name for messages, without a trailing slash: `s3://bucket/prefix`. */
  readonly name: string;
  /** The maximum size of one PUT. */
  readonly largestObjectBytes: number;
  /** Creates an object if the key is unused. @returns whether it was; true for only one of several concurrent calls */
  putIfAbsent(key: string, bytes: Uint8Array): Promise<boolean>;
  /** Streams an object. `undefined`: the object does not exist. */
  read(key: string, signal?: AbortSignal): Promise<AsyncIterable<Uint8Array> | undefined>;
  /** Lists all objects whose key begins with `prefix`. */
  list(prefix: string, signal?: AbortSignal): AsyncIterable<StoredObject>;
  /** Deletes an object. Succeeds if it does not exist. */
  delete(key: string): Promise<void>;
  /** Signs a GET. Everyone who has the signed request can send it until it expires. */
  signGet(key: string, ttlMilliseconds: number): Promise<SignedRequest>;
  /** Signs a PUT. The store rejects it with the status 412 if the object exists. */
  signPutIfAbsent(key: string, ttlMilliseconds: number): Promise<SignedRequest>;
}

export interface StoredObject {
  key: string;
  sizeBytes: number;
  /** The time of the write in milliseconds since 1970. */
  writtenAt: number;
}

/** Reads a small object. `undefined`: the object does not exist. */
export async function readWhole(bucket: Bucket, key: string): Promise<Buffer | undefined> {
  const chunks = await bucket.read(key);
  if (chunks === undefined) return undefined;
  const all: Uint8Array[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return Buffer.concat(all);
}
