import { RametError } from "../../base/errors.ts";
import { clusterDirectory } from "../../local/cluster-directory.ts";
import type { CheckpointStore } from "../../store/checkpoint-store.ts";
import { storeAt } from "../../store/store-at.ts";
import type { Io } from "../io.ts";
import { isMissing, nameOfPlace, storePlace } from "./store-place.ts";

export interface WhichStore {
  /** A directory or an address. */
  path?: string;
  /** The local cluster's name, used without a path. */
  name: string;
  namespace?: string;
}

/**
 * Opens the store of a command directly, on the disk or in a bucket. No cluster needs to run.
 *
 * @throws RametError `NotFound` if the directory does not exist or has no data of the namespace
 */
export async function openStore(
  io: Io,
  { path, name, namespace }: WhichStore,
): Promise<{ store: CheckpointStore; root: string; namespaces: string[] }> {
  const place = storePlace(path ?? clusterDirectory(name, io.environment).store);
  const root = nameOfPlace(place);
  if (isMissing(place)) {
    throw new RametError("NotFound", `Cannot find a store at ${root}`, {
      hint: path === undefined ? "Run `ramet local up`, or set --path to a directory" : "Correct --path",
    });
  }
  const store = await storeAt(place);
  const all = await store.namespaces();
  if (namespace === undefined) return { store, root, namespaces: all };
  if (all.includes(namespace)) return { store, root, namespaces: [namespace] };
  throw new RametError("NotFound", `The store ${root} has no data of the namespace ${namespace}`, {
    hint: all.length === 0 ? "Create a checkpoint first: the store is empty" : `Choose one of: ${all.join(", ")}`,
  });
}
