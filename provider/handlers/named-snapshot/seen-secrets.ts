import { z } from "zod";
import { RametError } from "../../../src/base/errors.ts";
import type { KubeClient } from "../../../src/kube/kube-client.ts";
import { ObjectMeta } from "../../../src/kube/object.ts";
import { coreResources } from "../../../src/kube/resource-ref.ts";
import { recipeSecretName } from "./recipe-secret.ts";

/**
 * What of the program's secrets is in the cluster, as it is there, so that what was edited or removed shows as changed. Undefined
 * where the program has none, or whoever looks may not read them.
 */
export async function seenSecrets(
  client: KubeClient,
  { name, namespace, secrets }: { name: string; namespace: string; secrets?: Record<string, string> | undefined },
): Promise<Record<string, string> | undefined> {
  if (secrets === undefined) return undefined;
  const resource = client.resource(coreResources.secrets, (value) => Secret.parse(value));
  try {
    const data = (await resource.find({ namespace, name: recipeSecretName(name) }))?.data ?? {};
    const keys = Object.keys(secrets).filter((key) => Object.hasOwn(data, key));
    return Object.fromEntries(keys.map((key) => [key, Buffer.from(data[key] ?? "", "base64").toString()]));
  } catch (error) {
    if (RametError.from(error).code !== "Forbidden") throw error;
    return undefined;
  }
}

const Secret = z.looseObject({ metadata: ObjectMeta, data: z.record(z.string(), z.string()).optional() });
