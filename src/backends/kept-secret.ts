import { rotationConfigMap } from "../api/names/key-rotation.ts";
import { systemNamespace } from "../api/names/system-names.ts";
import { RametError } from "../base/errors.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import type { DataMap } from "../kube/object.ts";
import { coreResources } from "../kube/resource-ref.ts";

/**
 * Reads a Secret of `ramet-system` that is created once and never changed. Creates it if it does not exist.
 * @param make the values of a new one, base64
 */
export async function keptSecret(
  client: KubeClient,
  { name, make }: { name: string; make: () => Record<string, string> },
  signal?: AbortSignal,
): Promise<DataMap> {
  const at = { namespace: systemNamespace, name };
  const found = await client.secrets.find(at, { signal });
  if (found !== undefined) return found;
  await createSystemNamespace(client, signal);
  // A changed key would cut the controllers off from running cells.
  return client.secrets.ensure(immutableSecret(at, make()), { signal });
}

/** The manifest of a Secret whose values cannot change. @param data base64 */
export function immutableSecret(metadata: { namespace: string; name: string }, data: Record<string, string>) {
  return { apiVersion: "v1", kind: "Secret", metadata, immutable: true, data };
}

export async function createSystemNamespace(client: KubeClient, signal?: AbortSignal): Promise<void> {
  const namespaces = client.resource(coreResources.namespaces);
  // Controllers that serve only some namespaces may not create any.
  if ((await namespaces.find({ name: systemNamespace }, { signal })) !== undefined) return;
  await namespaces.ensure({ apiVersion: "v1", kind: "Namespace", metadata: { name: systemNamespace } }, { signal });
}

/** Changes entries of a ConfigMap of `ramet-system`, and creates it if it does not exist. null: the entry is removed. */
export async function changeEntries(
  client: KubeClient,
  metadata: { namespace: string; name: string },
  data: Record<string, string | null>,
  signal?: AbortSignal,
): Promise<void> {
  const change = () => client.configMaps.mergePatch(metadata, { data }, { signal });
  await change().catch(async (error: unknown) => {
    if (RametError.from(error).code !== "NotFound") throw error;
    await createSystemNamespace(client, signal);
    await client.configMaps.ensure({ apiVersion: "v1", kind: "ConfigMap", metadata }, { signal });
    await change();
  });
}

/** The ConfigMap through which users request rotations of keys and controllers report them, by entry. */
export class RotationEntries {
  readonly #client: KubeClient;

  constructor(client: KubeClient) {
    this.#client = client;
  }

  async read(signal: AbortSignal): Promise<Record<string, string>> {
    return (await this.#client.configMaps.find(rotationConfigMap, { signal }))?.data ?? {};
  }

  /** Changes these entries only. Creates the ConfigMap if it does not exist, also in the middle of a rotation. */
  async write(data: Record<string, string>, signal: AbortSignal): Promise<void> {
    await changeEntries(this.#client, rotationConfigMap, data, signal);
  }
}
