import { checkedNamespace, checkedRef, type CheckpointRef } from "../checkpoint-id.ts";
import type { CheckpointStore } from "../checkpoint-store.ts";
import { expiryOf } from "../grant-check.ts";
import type { PublishedCheckpoint, Step } from "../sessions.ts";
import { guarded } from "../store-error.ts";
import type { Bucket } from "./bucket.ts";
import { grantToRead, grantToWrite } from "./grants.ts";
import { inventory } from "./inventory.ts";
import { bindStore, ownerOf } from "./owner.ts";
import { probeStore } from "./probe.ts";
import { publishedCheckpoint } from "./publication.ts";
import { findPublication, publishedManifest } from "./published.ts";
import { removeCheckpoint } from "./remove.ts";
import { scrubStore } from "./scrub.ts";
import { sweepStore } from "./sweep.ts";
import { usageOf } from "./usage.ts";

export interface ObjectStoreOptions {
  bucket: Bucket;
  /** Milliseconds since 1970. @default the system's clock */
  now?: () => number;
  onStep?: Step;
}

/** A store in a bucket of an object store. Cells reach it by requests that are signed for them, one by one. */
export function objectStore(options: ObjectStoreOptions): CheckpointStore {
  const { bucket, now = Date.now } = options;
  const step: Step = async (name) => options.onStep?.(name);

  const termOf = (ttlMilliseconds: number) => ({ ttlMilliseconds, expiresAt: expiryOf(now(), ttlMilliseconds) });

  function find(request: CheckpointRef): Promise<PublishedCheckpoint | undefined> {
    return guarded(`looking for checkpoint ${request.checkpointId}`, async () => {
      const ref = checkedRef(request);
      const publication = await findPublication(bucket, ref);
      return publication && publishedCheckpoint(publication, ref);
    });
  }

  return {
    bind: (cluster) => guarded(`binding the store ${bucket.name}`, () => bindStore(bucket, cluster)),
    owner: () => guarded(`reading whose store ${bucket.name} is`, () => ownerOf(bucket)),
    grantWrite: (request) =>
      guarded(`granting to write checkpoint ${request.checkpointId}`, async () =>
        grantToWrite(bucket, checkedRef(request), termOf(request.ttlMilliseconds)),
      ),
    grantRead: (request) =>
      guarded(`granting to read checkpoint ${request.checkpointId}`, async () =>
        grantToRead(
          bucket,
          { ...checkedRef(request), manifestDigest: request.manifestDigest },
          termOf(request.ttlMilliseconds),
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
      guarded(`sweeping the store ${bucket.name}`, () => sweepStore(bucket, request, { now: now(), step })),
    scrub: (request = {}) => guarded(`scrubbing the store ${bucket.name}`, () => scrubStore(bucket, request)),
    usage: (namespace) =>
      guarded(`measuring namespace ${namespace}`, async () => usageOf(bucket, checkedNamespace(namespace))),
    namespaces: () =>
      guarded(`listing the namespaces of the store ${bucket.name}`, async () => {
        const { checkpoints } = await inventory(bucket);
        return [...new Set(checkpoints.map(({ ref }) => ref.namespace))].sort();
      }),
    probe: () => probeStore(bucket),
  };
}
