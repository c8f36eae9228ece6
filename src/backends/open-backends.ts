import { Pod } from "../api/schema/pod.ts";
import { delay } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { CellClient } from "../cell/client/cell-client.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { coreResources } from "../kube/resource-ref.ts";
import { boundStore } from "../store/bound-store.ts";
import type { CheckpointStore } from "../store/checkpoint-store.ts";
import { encryptedStore } from "../store/encryption/encrypted-store.ts";
import type { Backend } from "./backend.ts";
import { Backends } from "./backends.ts";
import { cellBackend } from "./cell-backend.ts";
import { clusterCredentials } from "./cell-keys.ts";
import { csiBackend } from "./csi/csi-backend.ts";
import { encryptionKeys } from "./encryption-keys.ts";
import { ClusterKeys } from "./cluster-keys.ts";
import { cellRuntime } from "./cell-runtime.ts";
import type { SandboxRuntime } from "./runtime.ts";

export interface OpenBackendsOptions {
  client: KubeClient;
  store: CheckpointStore;
  /** The Secret in `ramet-system` with the key for checkpoints. @default they are not encrypted */
  encryptionSecret?: string | undefined;
  /** Other backends beside `cell` and `csi`. @default none */
  others?: readonly Backend[] | undefined;
  /** The only namespaces whose volumes are captured. @default all */
  namespaces?: readonly string[] | undefined;
  /** Called when a process at a cell's address is not the cell. @default ignored */
  onCellNotProven?: (() => void) | undefined;
  log: Log;
  signal: AbortSignal;
}

/** The backends with which the controllers run sandboxes and capture them. */
export interface OpenedBackends {
  backends: Backends;
  runtime: SandboxRuntime;
  /** The keys of the controllers and of the gateways. Every sandbox Pod gets their public halves. */
  keys: ClusterKeys;
  /** Closes idle connections. */
  close(): void;
}

/**
 * Opens the runtime and all backends of a cluster.
 * @throws RametError `StoreOfAnotherCluster`
 */
export async function openBackends({
  client,
  store,
  encryptionSecret,
  others = [],
  namespaces,
  onCellNotProven,
  log,
  signal,
}: OpenBackendsOptions): Promise<OpenedBackends> {
  // First, because it completes a rotation that a crash has interrupted.
  const keys = await ClusterKeys.open(client, signal);
  const credentials = await clusterCredentials(client, signal);
  const { clock } = client;
  const cells = new CellClient(keys.cellKey, {
    clock,
    onNotProven: ({ ip, sandboxUid }, error) => {
      onCellNotProven?.();
      log.warn({ ip, sandboxUid, error: error.describe() }, "a cell was not called");
    },
  });
  const pods = client.resource(coreResources.pods, (value) => Pod.parse(value));
  const bound = await clusterStore({ client, store, log, signal });
  const used = encryptionSecret === undefined ? bound : encryptedStore(bound, encryptionKeys(client, encryptionSecret));
  return {
    backends: new Backends(
      [cellBackend({ cells, credentials, store: used, clock }), csiBackend({ client, namespaces }), ...others],
      log,
    ),
    runtime: cellRuntime({ cells, credentials, clock, findPod: (at) => pods.find(at) }),
    keys,
    close: () => {
      cells.close();
    },
  };
}

interface ClusterStoreOptions {
  client: KubeClient;
  store: CheckpointStore;
  log: Log;
  signal: AbortSignal;
}

/**
 * Binds the store to this cluster: now, or before its first use if it cannot be written now.
 * @throws RametError `StoreOfAnotherCluster`: the controllers must not run with this store
 */
async function clusterStore({ client, store, log, signal }: ClusterStoreOptions): Promise<CheckpointStore> {
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
  throw new RametError("Unavailable", "The cluster cannot be identified: it has no namespace kube-system", {
    retryable: true,
    hint: "Check the API server, which creates that namespace",
  });
}

const betweenTriesMilliseconds = 100;
const mostTries = 100;
