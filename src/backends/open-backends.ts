import type { Log } from "../base/log.ts";
import { CellClient } from "../cell/client/cell-client.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import type { CheckpointStore } from "../store/checkpoint-store.ts";
import type { Backend } from "./backend.ts";
import { Backends } from "./backends.ts";
import { cellBackend } from "./cell-backend.ts";
import { clusterCredentials, clusterGatewayKey } from "./cell-keys.ts";
import { cellRuntime } from "./cell-runtime.ts";
import { clusterStore } from "./cluster-store.ts";
import type { SandboxRuntime } from "./runtime.ts";

export interface OpenBackendsOptions {
  client: KubeClient;
  store: CheckpointStore;
  /** Other backends beside `cell`. @default none */
  others?: readonly Backend[] | undefined;
  log: Log;
  signal: AbortSignal;
}

/** What the controllers need to run sandboxes and to capture them. */
export interface OpenedBackends {
  backends: Backends;
  runtime: SandboxRuntime;
  /** The public keys of the controllers and of the gateways, which every sandbox Pod gets. */
  podKeys: { publicKey: string; gatewayKey: string };
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
  others = [],
  log,
  signal,
}: OpenBackendsOptions): Promise<OpenedBackends> {
  const [credentials, gatewayKey] = await Promise.all([
    clusterCredentials(client, signal),
    clusterGatewayKey(client, signal),
  ]);
  const { clock } = client;
  const cells = new CellClient(credentials.key);
  const bound = await clusterStore({ client, store, log, signal });
  return {
    backends: new Backends([cellBackend({ cells, credentials, store: bound, clock }), ...others], log),
    runtime: cellRuntime({ cells, credentials, clock }),
    podKeys: { publicKey: credentials.publicKey, gatewayKey },
    close: () => {
      cells.close();
    },
  };
}
