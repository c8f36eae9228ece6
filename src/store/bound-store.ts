import { RametError } from "../base/errors.ts";
import type { CheckpointStore } from "./checkpoint-store.ts";

/**
 * A store as one cluster may use it: bound to the cluster before the first use, and looked at again before anything is
 * removed, since another file system may be mounted there by then.
 *
 * Every method throws `StoreOfAnotherCluster` when the store is another cluster's.
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
  const toRead = (): Promise<void> =>
    bindOnce().catch((error: unknown) => {
      // A store that can be read and not be bound, as its disk is full or read-only, still has what clones need.
      if (RametError.from(error).code === "StoreOfAnotherCluster") throw error;
    });
  const toRemove = (): Promise<void> => store.bind(cluster);
  return {
    bind: (other) => store.bind(other),
    owner: () => store.owner(),
    grantWrite: (request) => bindOnce().then(() => store.grantWrite(request)),
    grantRead: (request) => toRead().then(() => store.grantRead(request)),
    manifest: (request) => toRead().then(() => store.manifest(request)),
    find: (ref) => toRead().then(() => store.find(ref)),
    has: (ref) => toRead().then(() => store.has(ref)),
    remove: (ref) => toRemove().then(() => store.remove(ref)),
    sweep: (options) => toRemove().then(() => store.sweep(options)),
    scrub: (options) => toRead().then(() => store.scrub(options)),
    namespaces: () => toRead().then(() => store.namespaces()),
    usage: (namespace) => toRead().then(() => store.usage(namespace)),
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
