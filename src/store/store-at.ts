import type { StoreLocation } from "../api/store/store-address.ts";
import { type Clock, systemClock } from "../base/clock.ts";
import type { CheckpointStore } from "./checkpoint-store.ts";
import { directoryStore } from "./directory/store.ts";
import type { Bucket } from "./objects/bucket.ts";
import { objectStore } from "./objects/store.ts";
import type { Step } from "./sessions.ts";
import { RametError } from "../base/errors.ts";

/** The location of a store: a directory, or a bucket with a prefix. */
export type StorePlace = { directory: string } | StoreLocation;

export interface StoreAtOptions {
  /** @default the system's clock */
  clock?: Clock;
  onStep?: Step;
  /** Whether restores from a directory hash all content, as those from buckets always do. @default false */
  verifyRestores?: boolean;
}

export async function storeAt(place: StorePlace, options: StoreAtOptions = {}): Promise<CheckpointStore> {
  if ("directory" in place) return directoryStore({ root: place.directory, ...options });
  return objectStore({ bucket: await bucketAt(place, options.clock ?? systemClock), ...options });
}

/** Imports the cloud clients lazily, because they are large and most processes do not need them. */
async function bucketAt(location: StoreLocation, clock: Clock): Promise<Bucket> {
  switch (location.driver) {
    case "s3":
      return (await import("./objects/s3/s3-bucket.ts")).s3Bucket(location, { clock });
    case "gcs":
      return (await import("./objects/gcs/gcs-bucket.ts")).gcsBucket(location, { clock });
    case "azure":
      return (await import("./objects/azure/azure-bucket.ts")).azureBucket(location, { clock });
  }
}

/**
 * Wraps a store for one cluster. Binds the store to the cluster before the first use. Checks the binding again before each
 * removal, because another file system can be mounted at the path by then.
 *
 * Every method throws `StoreOfAnotherCluster` when the store belongs to another cluster.
 */
export function boundStore(store: CheckpointStore, cluster: string): CheckpointStore {
  let bound: Promise<void> | undefined;
  const bindOnce = (): Promise<void> => {
    bound ??= store.bind(cluster).catch((error: unknown) => {
      bound = undefined;
      throw error;
    });
    return bound;
  };
  const beforeRead = (): Promise<void> =>
    bindOnce().catch((error: unknown) => {
      // A full or read-only store cannot be bound, but clones can still read it.
      if (RametError.from(error).code === "StoreOfAnotherCluster") throw error;
    });
  const beforeRemoval = (): Promise<void> => store.bind(cluster);
  return {
    bind: (other) => store.bind(other),
    owner: () => store.owner(),
    grantWrite: (request) => bindOnce().then(() => store.grantWrite(request)),
    grantRead: (request) => beforeRead().then(() => store.grantRead(request)),
    manifest: (request) => beforeRead().then(() => store.manifest(request)),
    find: (ref) => beforeRead().then(() => store.find(ref)),
    has: (ref) => beforeRead().then(() => store.has(ref)),
    remove: (ref) => beforeRemoval().then(() => store.remove(ref)),
    sweep: (options) => beforeRemoval().then(() => store.sweep(options)),
    scrub: (options) => beforeRead().then(() => store.scrub(options)),
    namespaces: () => beforeRead().then(() => store.namespaces()),
    usage: (namespace) => beforeRead().then(() => store.usage(namespace)),
    probe: async () => {
      try {
        await bindOnce();
      } catch (error) {
        return { problem: RametError.from(error) };
      }
      return store.probe();
    },
  };
}
