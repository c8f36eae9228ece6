import { randomBytes } from "node:crypto";
import { link, rm } from "node:fs/promises";
import { join } from "node:path";
import { anotherCluster, decodeOwner, encodeOwner, ownerFile } from "../owner.ts";
import { readSmallFile, syncFolders, unless, writeDurably } from "./durable.ts";
import { requireRoot } from "./root.ts";

/** The cluster that the store is bound to; `undefined`: to none yet. */
export async function ownerOf(root: string): Promise<string | undefined> {
  await requireRoot(root);
  const bytes = await readSmallFile(join(root, ownerFile), 4096);
  return bytes === undefined ? undefined : decodeOwner(bytes, `store folder ${root}`);
}

/** Binds a store that is bound to none, for good. Of two clusters that try at once, one is refused. */
export async function bindStore(root: string, cluster: string): Promise<void> {
  const owner = (await ownerOf(root)) ?? (await claim(root, cluster));
  if (owner !== cluster) throw anotherCluster(root, { owner, cluster, path: join(root, ownerFile) });
}

async function claim(root: string, cluster: string): Promise<string | undefined> {
  const draft = join(root, `.store.${randomBytes(8).toString("hex")}`);
  try {
    await writeDurably(draft, encodeOwner(cluster));
    await unless(link(draft, join(root, ownerFile)), "EEXIST");
  } finally {
    await rm(draft, { force: true });
  }
  await syncFolders([root]);
  return ownerOf(root);
}
