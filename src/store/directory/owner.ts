import { randomBytes } from "node:crypto";
import { link, rm } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { canonicalJson } from "../../api/canonical-json.ts";
import { RametError } from "../../api/errors.ts";
import { readSmallFile, syncFolders, unless, writeDurably } from "./durable.ts";
import { requireRoot } from "./root.ts";

/** The file in the root that says whose store this is. */
export const ownerFile = "store.json";

const Owner = z.object({ v: z.literal(1), cluster: z.string().min(1) });

/** The cluster that the store is bound to; `undefined`: to none yet. */
export async function ownerOf(root: string): Promise<string | undefined> {
  await requireRoot(root);
  const path = join(root, ownerFile);
  const bytes = await readSmallFile(path, 4096);
  if (bytes === undefined) return undefined;
  try {
    return Owner.parse(JSON.parse(bytes.toString("utf8"))).cluster;
  } catch (error) {
    throw new RametError("StoreUnavailable", `store folder ${root} cannot be used: ${ownerFile} is not legal`, {
      hint: `Bring the file back: {"cluster":"<UID of the namespace kube-system>","v":1}.`,
      cause: error,
    });
  }
}

/** Binds a store that is bound to none, for good. Of two clusters that try at once, one is refused. */
export async function bindStore(root: string, cluster: string): Promise<void> {
  const owner = (await ownerOf(root)) ?? (await claim(root, cluster));
  if (owner === cluster) return;
  throw new RametError(
    "StoreOfAnotherCluster",
    `the store ${root} was not opened: it belongs to the cluster ${owner}, and this is the cluster ${cluster}`,
    {
      hint: `Give this cluster a store of its own. If the other one is gone for good, delete ${join(root, ownerFile)}: checkpoints that this cluster does not know are removed then`,
    },
  );
}

async function claim(root: string, cluster: string): Promise<string | undefined> {
  const draft = join(root, `.store.${randomBytes(8).toString("hex")}`);
  try {
    await writeDurably(draft, Buffer.from(canonicalJson({ v: 1, cluster })));
    await unless(link(draft, join(root, ownerFile)), "EEXIST");
  } finally {
    await rm(draft, { force: true });
  }
  await syncFolders([root]);
  return ownerOf(root);
}
