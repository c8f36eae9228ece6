import * as z from "zod";
import { canonicalJson } from "../base/canonical-json.ts";
import { RametError } from "../base/errors.ts";

/** The file or object that records which cluster the store belongs to. */
export const ownerFile = "store.json";

const Owner = z.object({ v: z.literal(1), cluster: z.string().min(1) });

export function encodeOwner(cluster: string): Buffer {
  return Buffer.from(canonicalJson({ v: 1, cluster }));
}

/** Returns the cluster. @throws RametError `StoreUnavailable` if `bytes` are not valid */
export function decodeOwner(bytes: Buffer, store: string): string {
  try {
    return Owner.parse(JSON.parse(bytes.toString("utf8"))).cluster;
  } catch (error) {
    throw new RametError("StoreUnavailable", `cannot use ${store}: ${ownerFile} is not valid`, {
      hint: `Restore the file: {"cluster":"<UID of the namespace kube-system>","v":1}`,
      cause: error,
    });
  }
}

/** The error for a store of another cluster. `path` is the location of the owner file. */
export function anotherCluster(
  store: string,
  whose: { owner: string | undefined; cluster: string; path: string },
): RametError {
  const { owner, cluster, path } = whose;
  return new RametError(
    "StoreOfAnotherCluster",
    `cannot open the store ${store}: it belongs to the cluster ${owner}, but this is the cluster ${cluster}`,
    {
      hint: `Configure a separate store for this cluster; if the other cluster no longer exists, delete ${path}, and Ramet will remove all checkpoints that are unknown to this cluster`,
    },
  );
}
