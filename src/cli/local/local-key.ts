import { randomBytes } from "node:crypto";
import { acceptsDigest } from "../../api/keys/api-key-rules.ts";
import { apiKeyDigest, newApiKey, readApiKey } from "../../api/keys/api-key-text.ts";
import { apiKeyKind } from "../../api/kinds/api-key.ts";
import type { ClusterDirectory } from "../../local/cluster-directory.ts";
import { readIfExists, writePrivate } from "../../local/control-plane/private-files.ts";
import { withLock } from "../../local/tools/lock.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Io } from "../io.ts";
import { createClientAccount } from "../key/client-account.ts";

/** The names of the ApiKey and of its service account. */
const name = "ramet-local-env";

/**
 * Returns the API key of the user of a local cluster, for the cluster's namespace. It is kept in a file that only the user can
 * read, and replaced if it no longer works.
 */
export async function localKey(io: Io, { clientKey }: ClusterDirectory, cluster: Cluster): Promise<string> {
  const { clock, signal } = io;
  return withLock(`${clientKey}.lock`, { clock, signal }, async () => {
    const known = (await readIfExists(clientKey))?.trim();
    if (known !== undefined && (await works(io, cluster, known))) return known;
    const { namespace } = cluster;
    await createClientAccount(io, cluster, name);
    const { text, digest } = newApiKey({ namespace, name, format: "e2b", random: randomBytes });
    const { apiVersion, kind } = apiKeyKind;
    const spec = { serviceAccountName: name, digests: [{ digest }] };
    await cluster.apiKeys.apply(
      { apiVersion, kind, metadata: { namespace, name }, spec },
      { fieldManager: "ramet-cli", force: true, signal },
    );
    await writePrivate(clientKey, `${text}\n`);
    return text;
  });
}

async function works({ clock, signal }: Io, { apiKeys, namespace }: Cluster, text: string): Promise<boolean> {
  const key = readApiKey(text);
  const found = await apiKeys.find({ namespace, name }, { signal });
  if (key === undefined || found === undefined) return false;
  return acceptsDigest(found.spec, apiKeyDigest({ namespace, name }, key.digits), clock.now());
}
