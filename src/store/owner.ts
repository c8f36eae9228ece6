import * as z from "zod";
import { canonicalJson } from "../base/canonical-json.ts";
import { RametError } from "../base/errors.ts";

/** The name under which a store says whose it is. */
export const ownerFile = "store.json";

const Owner = z.object({ v: z.literal(1), cluster: z.string().min(1) });

export function encodeOwner(cluster: string): Buffer {
  return Buffer.from(canonicalJson({ v: 1, cluster }));
}

/** The cluster that `bytes` name. @throws RametError `StoreUnavailable` about `store` when they name none */
export function decodeOwner(bytes: Buffer, store: string): string {
  try {
    return Owner.parse(JSON.parse(bytes.toString("utf8"))).cluster;
  } catch (error) {
    throw new RametError("StoreUnavailable", `${store} cannot be used: ${ownerFile} is not legal`, {
      hint: `Bring the file back: {"cluster":"<UID of the namespace kube-system>","v":1}.`,
      cause: error,
    });
  }
}

/** The error for a store of another cluster. `path`: where the store says whose it is. */
export function anotherCluster(
  store: string,
  whose: { owner: string | undefined; cluster: string; path: string },
): RametError {
  const { owner, cluster, path } = whose;
  return new RametError(
    "StoreOfAnotherCluster",
    `the store ${store} was not opened: it belongs to the cluster ${owner}, and this is the cluster ${cluster}`,
    {
      hint: `Give this cluster a store of its own. If the other one is gone for good, delete ${path}: checkpoints that this cluster does not know are removed then`,
    },
  );
}
