import type { ApiKey } from "../../api/kinds/api-key.ts";
import { type Cluster, type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Io, printLine } from "../io.ts";

export interface RevokeKeysOptions extends ClusterOptions {
  names: readonly string[];
  ignoreNotFound?: boolean;
}

/** `ramet key revoke`. Prints each revoked key. */
export async function revokeKeys(io: Io, options: RevokeKeysOptions): Promise<number> {
  return withCluster(io, options, async (cluster) => {
    const { names, ignoreNotFound = false } = options;
    const found = await Promise.all(names.map((name) => find(io, cluster, name, ignoreNotFound)));
    const keys = found.filter((key) => key !== undefined);
    for (const { metadata } of keys) {
      await cluster.apiKeys.delete(metadata, { uid: metadata.uid, signal: io.signal });
      printLine(io.stdout, `key ${metadata.name} revoked`);
    }
    return exitCodes.ok;
  });
}

function find(io: Io, cluster: Cluster, name: string, ignoreNotFound: boolean): Promise<ApiKey | undefined> {
  if (!ignoreNotFound) return cluster.get(cluster.apiKeys, name, io.signal);
  return cluster.apiKeys.find({ namespace: cluster.namespace, name }, { signal: io.signal });
}
