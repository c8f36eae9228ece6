import type { ObjectsReadGrant, ObjectsWriteGrant } from "../../api/wire/grant.ts";
import { type Clock, systemClock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { type CheckpointRef, expiryOf } from "../checkpoint-id.ts";
import {
  type CheckpointStore,
  type StoreHealth,
  type StoreUsage,
  decodeOwner,
  encodeOwner,
  ownerFile,
  storeOf,
} from "../checkpoint-store.ts";
import { parseManifest } from "../manifest.ts";
import type { Step } from "../sessions.ts";
import { type Bucket, readWhole } from "./bucket.ts";
import { bytesOf, inventory, removeCheckpoint, separateFiles } from "./inventory.ts";
import {
  fileKey,
  findPublication,
  isUnreadable,
  keysOf,
  maximumObjects,
  newAttempt,
  newProbeKey,
  publicationKey,
  publishedCheckpoint,
  publishedManifest,
} from "./layout.ts";
import { scrubStore, sweepStore } from "./upkeep.ts";

export interface ObjectStoreOptions {
  bucket: Bucket;
  /** @default the system's clock */
  clock?: Clock;
  onStep?: Step;
}

/** A store in a bucket. Cells access it by individually signed requests. */
export function objectStore(options: ObjectStoreOptions): CheckpointStore {
  const { bucket, clock = systemClock } = options;
  const step: Step = async (name) => options.onStep?.(name);

  /** When a grant that is created now expires. */
  const expiring = <R extends { ttlMilliseconds: number }>(request: R) => ({
    ...request,
    expiresAt: expiryOf(clock, request.ttlMilliseconds),
  });

  return storeOf({
    name: bucket.name,
    ownerPath: `${bucket.name}/${ownerFile}`,
    owner: async () => {
      const bytes = await readWhole(bucket, ownerFile);
      return bytes && decodeOwner(bytes, `the store ${bucket.name}`);
    },
    claim: async (cluster) => {
      const bytes = encodeOwner(cluster);
      if (await bucket.putIfAbsent(ownerFile, bytes)) await requireRefusal(bucket, ownerFile, bytes);
    },
    grantWrite: async (request) => grantToWrite(bucket, expiring(request)),
    grantRead: async (request) => grantToRead(bucket, expiring(request)),
    manifest: ({ digest, ...ref }) => publishedManifest(bucket, ref, digest),
    find: async (ref) => {
      const publication = await findPublication(bucket, ref);
      return publication && publishedCheckpoint(publication, ref);
    },
    remove: (ref) => removeCheckpoint(bucket, ref, step),
    sweep: (request) => sweepStore(bucket, request, { now: clock.now().getTime(), step }),
    scrub: (request) => scrubStore(bucket, request),
    usage: (namespace) => usageOf(bucket, namespace),
    namespaces: async () => {
      const { checkpoints } = await inventory(bucket);
      return [...new Set(checkpoints.map(({ ref }) => ref.namespace))].sort();
    },
    probe: () => probeStore(bucket),
  });
}

/** Measures the usage of a namespace. Nothing is shared in a bucket. */
async function usageOf(bucket: Bucket, namespace: string): Promise<StoreUsage> {
  const usage: StoreUsage = { checkpoints: 0, contents: 0, contentBytes: 0, sharedBytes: 0, stagingBytes: 0 };
  for (const holding of (await inventory(bucket, namespace)).checkpoints) {
    const { files, orphans } = await separateFiles(bucket, holding);
    if (holding.publication !== undefined) usage.checkpoints += 1;
    usage.contents += files.length;
    usage.contentBytes += bytesOf(files);
    usage.stagingBytes += bytesOf(orphans.flatMap((orphan) => orphan.files));
  }
  return usage;
}

/** Tests every operation that publications and removals need. Buckets do not report free space. */
async function probeStore(bucket: Bucket): Promise<StoreHealth> {
  const key = newProbeKey();
  const bytes = Buffer.from("probe");
  try {
    await bucket.putIfAbsent(key, bytes);
    try {
      await requireRefusal(bucket, key, bytes);
      await readWhole(bucket, key);
    } finally {
      await bucket.delete(key);
    }
    return {};
  } catch (error) {
    return { problem: RametError.from(error, `probing the store ${bucket.name} failed`) };
  }
}

/**
 * Verifies that the store rejects a conditional PUT to an existing key. The driver depends on that, and some stores ignore the
 * condition. Writes the existing `bytes`, so nothing changes.
 * @throws RametError `StoreUnavailable`
 */
async function requireRefusal(bucket: Bucket, key: string, bytes: Uint8Array): Promise<void> {
  if (!(await bucket.putIfAbsent(key, bytes))) return;
  throw new RametError(
    "StoreUnavailable",
    `cannot use the store ${bucket.name}: it overwrites objects despite the condition of the request`,
    {
      hint: "Use an object store that supports conditional PUT requests (If-None-Match), such as those of AWS, Google and Azure",
    },
  );
}

/** A request for a grant: how long its signatures are valid, and until when, in milliseconds since 1970. */
type Expiring = CheckpointRef & { ttlMilliseconds: number; expiresAt: number };

export async function grantToWrite(
  bucket: Bucket,
  { namespace, checkpointId, ttlMilliseconds, expiresAt }: Expiring,
): Promise<ObjectsWriteGrant> {
  const ref = { namespace, checkpointId };
  const attempt = newAttempt(expiresAt);
  const keys = Array.from({ length: maximumObjects(bucket) }, (_, index) => fileKey(ref, attempt, index));
  const [publication, publish, files] = await Promise.all([
    bucket.signGet(publicationKey(ref), ttlMilliseconds),
    bucket.signPutIfAbsent(publicationKey(ref), ttlMilliseconds),
    Promise.all(keys.map((key) => bucket.signPutIfAbsent(key, ttlMilliseconds))),
  ]);
  const { largestObjectBytes: largestFileBytes } = bucket;
  const signed = { attempt, publication, publish, files, largestFileBytes };
  return { driver: "objects", access: "write", ...ref, expiresAt, ...signed };
}

async function grantToRead(
  bucket: Bucket,
  { namespace, checkpointId, ttlMilliseconds, expiresAt, manifestDigest }: Expiring & { manifestDigest: string },
): Promise<ObjectsReadGrant> {
  const ref = { namespace, checkpointId };
  const [publication, files] = await Promise.all([
    bucket.signGet(publicationKey(ref), ttlMilliseconds),
    publishedKeys(bucket, ref).then((keys) => Promise.all(keys.map((key) => bucket.signGet(key, ttlMilliseconds)))),
  ]);
  return { driver: "objects", access: "read", ...ref, expiresAt, manifestDigest, publication, files };
}

/** Returns no keys if the checkpoint does not exist or is invalid. `openForRead` then reports that. */
async function publishedKeys(bucket: Bucket, ref: CheckpointRef): Promise<string[]> {
  try {
    const publication = await findPublication(bucket, ref);
    if (publication === undefined) return [];
    const { files } = parseManifest(publication.manifestBytes, ref);
    return keysOf(ref, publication.attempt, files).flat();
  } catch (error) {
    if (isUnreadable(error)) return [];
    throw error;
  }
}
