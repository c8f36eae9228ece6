import { RametError } from "../../base/errors.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import { clusterDirectory, defaultClusterName } from "../../local/cluster-directory.ts";
import { boundStore } from "../../store/bound-store.ts";
import type { CheckpointStore } from "../../store/checkpoint-store.ts";
import { storeAt } from "../../store/store-at.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Io } from "../io.ts";
import { isMissing, nameOfPlace, storePlace } from "../store/store-place.ts";

/** `why`: there is none within reach, for people. */
export type ClusterStore = { path: string; store: CheckpointStore } | { why: string };

/**
 * The store of the cluster that a command speaks to, if it is within reach: the one at `path`, a folder or an address, else that
 * of the local cluster where that is the cluster.
 *
 * @throws RametError about a `path` that was given: `NotFound`, `StoreOfAnotherCluster`, `StoreUnavailable`
 */
export async function openClusterStore(io: Io, cluster: Cluster, path: string | undefined): Promise<ClusterStore> {
  const place = storePlace(path ?? clusterDirectory(defaultClusterName, io.environment).store);
  const root = nameOfPlace(place);
  if (isMissing(place)) {
    if (path === undefined) return { why: "it is not on this machine" };
    throw new RametError("NotFound", `There is no store at ${root}`, { hint: "Correct --store-path." });
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

/** Never binds a store: one that no controller has opened is no cluster's yet. */
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
  const whose = owner === undefined ? "no cluster's yet" : "another cluster's";
  throw new RametError("StoreOfAnotherCluster", `the store ${root} is ${whose}`, {
    hint: "Name what this cluster's controller has as --store-directory or --store.",
  });
}
