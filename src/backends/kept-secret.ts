import type * as z from "zod";
import { RametError } from "../base/errors.ts";
import { systemNamespace } from "../api/names/system-names.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import type { KubeObject } from "../kube/object.ts";
import { coreResources } from "../kube/resource-ref.ts";

/** A Secret of `ramet-system` that is created once and never changed. */
export interface KeptSecret<T extends KubeObject> {
  name: string;
  schema: z.ZodType<T>;
  /** The values of a new one, base64. */
  make: () => Record<string, string>;
}

/** Reads a Secret. Creates it if it does not exist. */
export async function keptSecret<T extends KubeObject>(
  client: KubeClient,
  { name, schema, make }: KeptSecret<T>,
  signal?: AbortSignal,
): Promise<T> {
  const at = { namespace: systemNamespace, name };
  const secrets = client.resource(coreResources.secrets, (value) => schema.parse(value));
  const found = await secrets.find(at, { signal });
  if (found !== undefined) return found;
  await createSystemNamespace(client, signal);
  // A changed key would cut the controllers off from running cells.
  try {
    return await secrets.create(immutableSecret(at, make()), { signal });
  } catch (error) {
    // Another controller created it first.
    if (RametError.from(error).code !== "AlreadyExists") throw error;
    return secrets.get(at, { signal });
  }
}

/** The manifest of a Secret whose values cannot change. @param data base64 */
export function immutableSecret(metadata: { namespace: string; name: string }, data: Record<string, string>) {
  return { apiVersion: "v1", kind: "Secret", metadata, immutable: true, data };
}

export async function createSystemNamespace(client: KubeClient, signal?: AbortSignal): Promise<void> {
  const namespaces = client.resource(coreResources.namespaces);
  // Controllers that serve only some namespaces may not create any.
  if ((await namespaces.find({ name: systemNamespace }, { signal })) !== undefined) return;
  const namespace = { apiVersion: "v1", kind: "Namespace", metadata: { name: systemNamespace } };
  try {
    await namespaces.create(namespace, { signal });
  } catch (error) {
    if (RametError.from(error).code !== "AlreadyExists") throw error;
  }
}
