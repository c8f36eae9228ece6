import { RametError } from "../base/errors.ts";
import { delay } from "../base/clock.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import type { Log } from "../base/log.ts";
import { coreResources } from "../kube/resource-ref.ts";
import { boundStore } from "../store/bound-store.ts";
import type { CheckpointStore } from "../store/checkpoint-store.ts";

export interface ClusterStoreOptions {
  client: KubeClient;
  store: CheckpointStore;
  log: Log;
  signal: AbortSignal;
}

/**
 * Binds the store to this cluster: now, or before its first use if it cannot be written now.
 * @throws RametError `StoreOfAnotherCluster`: the controllers must not run with this store
 */
export async function clusterStore({ client, store, log, signal }: ClusterStoreOptions): Promise<CheckpointStore> {
  const cluster = await clusterUid(client, signal);
  await store.bind(cluster).catch((thrown: unknown) => {
    const error = RametError.from(thrown);
    if (error.code === "StoreOfAnotherCluster") throw error;
    // Sandboxes run without a store. Each Checkpoint reports the problem.
    log.warn({ error: error.describe() }, "the store cannot be used");
  });
  return boundStore(store, cluster);
}

/** The UID of the namespace `kube-system`, which cannot be deleted. A new API server creates it within seconds. */
async function clusterUid(client: KubeClient, signal: AbortSignal): Promise<string> {
  const namespaces = client.resource(coreResources.namespaces);
  for (let tries = 0; tries < mostTries; tries++) {
    const found = await namespaces.find({ name: "kube-system" }, { signal });
    if (found !== undefined) return found.metadata.uid;
    await delay(client.clock, betweenTriesMilliseconds, signal);
  }
  throw new RametError("Unavailable", "The cluster is not known: its API has no namespace kube-system", {
    retryable: true,
    hint: "Look whether the API server is well; it makes that namespace itself",
  });
}

const betweenTriesMilliseconds = 100;
const mostTries = 100;
