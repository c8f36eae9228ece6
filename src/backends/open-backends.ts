import { annotations } from "../api/names/labels.ts";
import { systemNamespace } from "../api/names/system-names.ts";
import { Pod } from "../api/schema/pod.ts";
import { delay } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { CellClient } from "../cell/client/cell-client.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { coreResources } from "../kube/resource-ref.ts";
import type { CheckpointStore } from "../store/checkpoint-store.ts";
import { type EncryptionKey, type EncryptionKeys, encryptedStore } from "../store/encryption/encrypted-store.ts";
import { boundStore } from "../store/store-at.ts";
import type { Backend } from "./backend.ts";
import { Backends } from "./backends.ts";
import { cellBackend } from "./cell-backend.ts";
import { cellRuntime } from "./cell-runtime.ts";
import { ClusterKeys, clusterCredentials } from "./cluster-keys.ts";
import { csiBackend } from "./csi/csi-backend.ts";
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

/**
 * Keys in Secrets of `ramet-system`: each entry is a key of 32 bytes, and `current` names the one for new checkpoints. Older ones
 * stay until no checkpoint needs them. A namespace can have its own Secret, or `none`.
 * @param defaultSecret the Secret for namespaces without an annotation, or `none`
 */
function encryptionKeys(client: KubeClient, defaultSecret: string): EncryptionKeys {
  const namespaces = client.resource(coreResources.namespaces);

  async function dataOf(secret: string): Promise<Record<string, string>> {
    const found = await client.secrets.find({ namespace: systemNamespace, name: secret });
    if (found?.data["current"] !== undefined) return found.data;
    const why = found === undefined ? "does not exist" : 'has no entry "current", so it is not one of keys';
    throw unavailable(`the Secret ${secret} in the namespace ${systemNamespace} ${why}`);
  }

  function keyOf(secret: string, key: string, data: Record<string, string>): EncryptionKey {
    const bytes = Buffer.from(data[key] ?? "", "base64");
    if (key !== "current" && bytes.length === 32) return { secret, key, bytes };
    const why = data[key] === undefined ? "does not exist" : "does not have 32 bytes";
    throw unavailable(`the key ${key} of the Secret ${secret} in the namespace ${systemNamespace} ${why}`);
  }

  return {
    async current(namespace) {
      const { metadata } = await namespaces.get({ name: namespace });
      const secret = metadata.annotations?.[annotations.encryptionSecret] ?? defaultSecret;
      if (secret === "none") return undefined;
      const data = await dataOf(secret);
      return keyOf(
        secret,
        Buffer.from(data["current"] ?? "", "base64")
          .toString("utf8")
          .trim(),
        data,
      );
    },
    find: async ({ secret, key }) => keyOf(secret, key, await dataOf(secret)),
  };
}

function unavailable(why: string): RametError {
  return new RametError("KeyUnavailable", `The key for checkpoints cannot be used: ${why}`, {
    hint: "Create the Secret, or restore its keys from your backup",
  });
}
