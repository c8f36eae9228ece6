import { RametError } from "../base/errors.ts";
import type { CheckpointStore } from "./checkpoint-store.ts";

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
