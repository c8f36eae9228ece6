import { RametError } from "../../base/errors.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import { boundStore } from "../../store/bound-store.ts";
import type { CheckpointStore } from "../../store/checkpoint-store.ts";
import { storeAt } from "../../store/store-at.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Io } from "../io.ts";
import { isMissing, localStore, nameOfPlace, storePlace } from "../store/inspect.ts";

/** `why`: no store is reachable. */
export type ClusterStore = { path: string; store: CheckpointStore } | { why: string };

/**
 * The store of the command's cluster, if it is reachable: the one at `storePath`, a directory or an address, else the local
 * cluster's, if that is the cluster.
 *
 * @throws RametError if `storePath` is given: `NotFound`, `StoreOfAnotherCluster`, `StoreUnavailable`
 */
export async function openClusterStore(
  io: Io,
  cluster: Cluster,
  { storePath: path, kubeconfig }: { storePath?: string; kubeconfig?: string },
): Promise<ClusterStore> {
  const place = storePlace(path ?? localStore(io, kubeconfig));
  const root = nameOfPlace(place);
  if (isMissing(place)) {
    if (path === undefined) return { why: "it is not on this machine" };
    throw new RametError("NotFound", `Cannot find a store at ${root}`, { hint: "Correct --store-path" });
  }
  try {
    const store = await storeAt(place, { clock: io.clock });
    return { path: root, store: await ofCluster(io, cluster, { store, root }) };
  } catch (thrown) {
    const error = RametError.from(thrown);
    if (path !== undefined || error.code === "Canceled") throw error;
    return { why: error.message };
  }
}

/** Does not bind the store to the cluster: only a controller does that. */
async function ofCluster(
  io: Io,
  { client }: Cluster,
  { store, root }: { store: CheckpointStore; root: string },
): Promise<CheckpointStore> {
  const owner = await store.owner();
  const { metadata } = await client
    .resource(coreResources.namespaces)
    .get({ name: "kube-system" }, { signal: io.signal });
  if (owner === metadata.uid) return boundStore(store, metadata.uid);
  const whose = owner === undefined ? "not used by any cluster yet" : "another cluster's";
  throw new RametError("StoreOfAnotherCluster", `the store ${root} is ${whose}`, {
    hint: "Use the --store-directory or --store of this cluster's controller",
  });
}
