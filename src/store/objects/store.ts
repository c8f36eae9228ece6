import type { ObjectsReadGrant, ObjectsWriteGrant } from "../../api/wire/grant.ts";
import { type Clock, systemClock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { checkedNamespace, checkedRef, type CheckpointRef } from "../checkpoint-id.ts";
import type { CheckpointStore, StoreHealth, StoreUsage } from "../checkpoint-store.ts";
import { expiryOf } from "../grant-check.ts";
import { parseManifest } from "../manifest.ts";
import { anotherCluster, decodeOwner, encodeOwner, ownerFile } from "../owner.ts";
import type { PublishedCheckpoint, Step } from "../sessions.ts";
import { guarded } from "../store-error.ts";
import { type Bucket, readWhole } from "./bucket.ts";
import { bytesOf, inventory, removeCheckpoint, separateFiles } from "./inventory.ts";
import { fileKey, maximumFiles, newAttempt, newProbeKey, publicationKey } from "./layout.ts";
import { findPublication, isUnreadable, publishedCheckpoint, publishedManifest } from "./publication.ts";
import { scrubStore } from "./scrub.ts";
import { sweepStore } from "./sweep.ts";

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

  const lifetimeOf = (ttlMilliseconds: number) => ({ ttlMilliseconds, expiresAt: expiryOf(clock, ttlMilliseconds) });

  function find(request: CheckpointRef): Promise<PublishedCheckpoint | undefined> {
    return guarded(`finding checkpoint ${request.checkpointId}`, async () => {
      const ref = checkedRef(request);
      const publication = await findPublication(bucket, ref);
      return publication && publishedCheckpoint(publication, ref);
    });
  }

  return {
    bind: (cluster) => guarded(`binding the store ${bucket.name}`, () => bindStore(bucket, cluster)),
    owner: () => guarded(`reading the owner of the store ${bucket.name}`, () => ownerOf(bucket)),
    grantWrite: (request) =>
      guarded(`creating a write grant for checkpoint ${request.checkpointId}`, async () =>
        grantToWrite(bucket, checkedRef(request), lifetimeOf(request.ttlMilliseconds)),
      ),
    grantRead: (request) =>
      guarded(`creating a read grant for checkpoint ${request.checkpointId}`, async () =>
        grantToRead(
          bucket,
          { ...checkedRef(request), manifestDigest: request.manifestDigest },
          lifetimeOf(request.ttlMilliseconds),
        ),
      ),
    manifest: (request) =>
      guarded(`reading the manifest of checkpoint ${request.checkpointId}`, async () =>
        publishedManifest(bucket, checkedRef(request), request.digest),
      ),
    find,
    has: async (ref) => (await find(ref)) !== undefined,
    remove: (request) =>
      guarded(`removing checkpoint ${request.checkpointId}`, async () =>
        removeCheckpoint(bucket, checkedRef(request), step),
      ),
    sweep: (request) =>
      guarded(`sweeping the store ${bucket.name}`, () =>
        sweepStore(bucket, request, { now: clock.now().getTime(), step }),
      ),
    scrub: (request = {}) => guarded(`scrubbing the store ${bucket.name}`, () => scrubStore(bucket, request)),
    usage: (namespace) =>
      guarded(`measuring the usage of namespace ${namespace}`, async () =>
        usageOf(bucket, checkedNamespace(namespace)),
      ),
    namespaces: () =>
      guarded(`listing the namespaces of the store ${bucket.name}`, async () => {
        const { checkpoints } = await inventory(bucket);
        return [...new Set(checkpoints.map(({ ref }) => ref.namespace))].sort();
      }),
    probe: () => probeStore(bucket),
  };
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

/** Returns the cluster that the store is bound to. */
async function ownerOf(bucket: Bucket): Promise<string | undefined> {
  const bytes = await readWhole(bucket, ownerFile);
  return bytes && decodeOwner(bytes, `the store ${bucket.name}`);
}

/** Binds an unbound store. If two clusters try this at the same time, one of them fails. */
async function bindStore(bucket: Bucket, cluster: string): Promise<void> {
  const owner = (await ownerOf(bucket)) ?? (await claim(bucket, cluster));
  if (owner !== cluster) throw anotherCluster(bucket.name, { owner, cluster, path: `${bucket.name}/${ownerFile}` });
}

async function claim(bucket: Bucket, cluster: string): Promise<string | undefined> {
  const bytes = encodeOwner(cluster);
  if (await bucket.putIfAbsent(ownerFile, bytes)) await requireRefusal(bucket, ownerFile, bytes);
  return ownerOf(bucket);
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

/** The lifetime of a grant: a duration for its signatures, and the resulting time for its reader. */
interface Lifetime {
  ttlMilliseconds: number;
  /** Milliseconds since 1970. */
  expiresAt: number;
}

/** Creates a grant for one new attempt. */
export async function grantToWrite(
  bucket: Bucket,
  ref: CheckpointRef,
  { ttlMilliseconds, expiresAt }: Lifetime,
): Promise<ObjectsWriteGrant> {
  const attempt = newAttempt(expiresAt);
  const keys = Array.from({ length: maximumFiles }, (_, index) => fileKey(ref, attempt, index));
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
  { manifestDigest, ...ref }: CheckpointRef & { manifestDigest: string },
  { ttlMilliseconds, expiresAt }: Lifetime,
): Promise<ObjectsReadGrant> {
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
    return files.map((_, index) => fileKey(ref, publication.attempt, index));
  } catch (error) {
    if (isUnreadable(error)) return [];
    throw error;
  }
}
