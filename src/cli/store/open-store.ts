import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { RametError } from "../../api/errors.ts";
import { clusterFolder } from "../../local/cluster-folder.ts";
import type { CheckpointStore } from "../../store/checkpoint-store.ts";
import { directoryStore } from "../../store/directory/store.ts";
import type { Io } from "../io.ts";

export interface WhichStore {
  path?: string;
  /** The local cluster's, where no path is given. */
  name: string;
  namespace?: string;
}

/**
 * The store that a command is about, as it lies on the disk: no cluster needs to run.
 * @throws RametError `NotFound` when there is no such folder, or nothing of the namespace in it
 */
export async function openStore(
  io: Io,
  { path, name, namespace }: WhichStore,
): Promise<{ store: CheckpointStore; root: string; namespaces: string[] }> {
  const root = path === undefined ? clusterFolder(name, io.environment).store : resolve(path);
  if (!existsSync(root)) {
    throw new RametError("NotFound", `There is no store at ${root}`, {
      hint: path === undefined ? "Run `ramet local up`, or name a folder with --path." : "Correct --path.",
    });
  }
  const store = directoryStore({ root });
  const all = await store.namespaces();
  if (namespace === undefined) return { store, root, namespaces: all };
  if (all.includes(namespace)) return { store, root, namespaces: [namespace] };
  throw new RametError("NotFound", `There is nothing of the namespace ${namespace} in the store ${root}`, {
    hint: all.length === 0 ? "The store is empty." : `It has: ${all.join(", ")}.`,
  });
}
