import { RametError } from "../../base/errors.ts";
import { anotherCluster, decodeOwner, encodeOwner, ownerFile } from "../owner.ts";
import { readWhole, type Bucket } from "./bucket.ts";

/** The cluster that the store is bound to; `undefined`: to none yet. */
export async function ownerOf(bucket: Bucket): Promise<string | undefined> {
  const bytes = await readWhole(bucket, ownerFile);
  return bytes && decodeOwner(bytes, `the store ${bucket.name}`);
}

/** Binds a store that is bound to none, for good. Of two clusters that try at once, one is refused. */
export async function bindStore(bucket: Bucket, cluster: string): Promise<void> {
  const owner = (await ownerOf(bucket)) ?? (await claim(bucket, cluster));
  if (owner !== cluster) throw anotherCluster(bucket.name, { owner, cluster, path: `${bucket.name}/${ownerFile}` });
}

async function claim(bucket: Bucket, cluster: string): Promise<string | undefined> {
  const bytes = encodeOwner(cluster);
  if (await bucket.putIfAbsent(ownerFile, bytes)) await requireRefusal(bucket, ownerFile, bytes);
  return ownerOf(bucket);
}

/**
 * That of two writers of one key the second is refused is what the whole driver stands on, and some stores know nothing of it.
 * `bytes` are what `key` has.
 * @throws RametError `StoreUnavailable`
 */
export async function requireRefusal(bucket: Bucket, key: string, bytes: Uint8Array): Promise<void> {
  if (!(await bucket.putIfAbsent(key, bytes))) return;
  throw new RametError("StoreUnavailable", `the store ${bucket.name} cannot be used: it writes over what is there`, {
    hint: "Use an object store that honours the condition of a PUT, as the clouds' own do.",
  });
}
