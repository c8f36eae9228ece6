import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { RametError } from "../../api/errors.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import { clusterFolder, defaultClusterName } from "../../local/cluster-folder.ts";
import { boundStore } from "../../store/bound-store.ts";
import type { CheckpointStore } from "../../store/checkpoint-store.ts";
import { directoryStore } from "../../store/directory/store.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Io } from "../io.ts";

/** `why`: there is none within reach, for people. */
export type ClusterStore = { path: string; store: CheckpointStore } | { why: string };

/**
 * The store of the cluster that a command speaks to, if this machine has it: the one at `path`, else that of the local
 * cluster where that is the cluster.
 *
 * @throws RametError about a `path` that was given: `NotFound`, `StoreOfAnotherCluster`, `StoreUnavailable`
 */
export async function openClusterStore(io: Io, cluster: Cluster, path: string | undefined): Promise<ClusterStore> {
  const root = path === undefined ? clusterFolder(defaultClusterName, io.environment).store : resolve(path);
  if (!existsSync(root)) {
    if (path === undefined) return { why: "it is not on this machine" };
    throw new RametError("NotFound", `There is no store at ${root}`, { hint: "Correct --store-path." });
  }
  try {
    return { path: root, store: await ofCluster(io, cluster, root) };
  } catch (thrown) {
    const error = RametError.from(thrown);
    if (path !== undefined || error.code === "Canceled") throw error;
    return { why: error.message };
  }
}

/** Never binds a store: a folder that no controller has opened is no cluster's yet. */
async function ofCluster(io: Io, { client }: Cluster, root: string): Promise<CheckpointStore> {
  const store = directoryStore({ root, now: () => io.clock.now().getTime() });
  const owner = await store.owner();
  const { metadata } = await client
    .resource(coreResources.namespaces)
    .get({ name: "kube-system" }, { signal: io.signal });
  if (owner === metadata.uid) return boundStore(store, metadata.uid);
  const whose = owner === undefined ? "no cluster's yet" : "another cluster's";
  throw new RametError("StoreOfAnotherCluster", `the store ${root} is ${whose}`, {
    hint: "Name the folder that this cluster's controller has as --store-directory.",
  });
}
