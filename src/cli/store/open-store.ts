import { RametError } from "../../base/errors.ts";
import { clusterDirectory } from "../../local/cluster-directory.ts";
import type { CheckpointStore } from "../../store/checkpoint-store.ts";
import { storeAt } from "../../store/store-at.ts";
import type { Io } from "../io.ts";
import { isMissing, nameOfPlace, storePlace } from "./store-place.ts";

export interface WhichStore {
  /** A folder, or an address. */
  path?: string;
  /** The local cluster's, where no path is given. */
  name: string;
  namespace?: string;
}

/**
 * The store that a command is about, as it lies on the disk or in a bucket: no cluster needs to run.
 * @throws RametError `NotFound` when there is no such folder, or nothing of the namespace in it
 */
export async function openStore(
  io: Io,
  { path, name, namespace }: WhichStore,
): Promise<{ store: CheckpointStore; root: string; namespaces: string[] }> {
  const place = storePlace(path ?? clusterDirectory(name, io.environment).store);
  const root = nameOfPlace(place);
  if (isMissing(place)) {
    throw new RametError("NotFound", `There is no store at ${root}`, {
      hint: path === undefined ? "Run `ramet local up`, or name a folder with --path." : "Correct --path.",
    });
  }
  const store = await storeAt(place);
  const all = await store.namespaces();
  if (namespace === undefined) return { store, root, namespaces: all };
  if (all.includes(namespace)) return { store, root, namespaces: [namespace] };
  throw new RametError("NotFound", `There is nothing of the namespace ${namespace} in the store ${root}`, {
    hint: all.length === 0 ? "The store is empty." : `It has: ${all.join(", ")}.`,
  });
}
