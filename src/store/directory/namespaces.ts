import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { NamespaceName } from "../checkpoint-id.ts";
import { ownerFile } from "../owner.ts";
import { layoutOf, type Layout } from "./layout.ts";
import { namespaceOf, requireFolders } from "./namespace-directory.ts";
import { requireRoot } from "./root.ts";

export interface Namespaces {
  found: { namespace: string; layout: Layout }[];
  /** Paths in the root that are no namespace's folder. */
  foreign: string[];
}

/** All namespaces in a store, by the markers in their folders. */
export async function namespacesIn(root: string): Promise<Namespaces> {
  await requireRoot(root);
  const namespaces: Namespaces = { found: [], foreign: [] };
  for (const entry of await readdir(root, { withFileTypes: true })) {
    if (entry.name === ownerFile) continue;
    const path = join(root, entry.name);
    const legal = entry.isDirectory() && NamespaceName.safeParse(entry.name).success;
    if (!legal || (await namespaceOf(path)) !== entry.name) {
      namespaces.foreign.push(path);
      continue;
    }
    const layout = layoutOf(path);
    await requireFolders(layout.contentFolder, layout.checkpoints, layout.staging);
    namespaces.found.push({ namespace: entry.name, layout });
  }
  return namespaces;
}
