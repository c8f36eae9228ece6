import { z } from "zod";
import type { NamedSnapshot } from "../../api/named-snapshot.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { ObjectMeta } from "../../kube/object.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import { keyedContent } from "./keyed-content.ts";
import type { Wanted } from "./state.ts";

/**
 * The Secrets that a step of the recipe can read: those that steps before it have copied, and those in what it is built from. Of
 * the latter all keys, as a version tells no more than their names.
 * @throws RametError `NotFound` when one that the recipe copies is gone; one in what it is built from may be
 */
export async function copiedSecrets(
  client: KubeClient,
  { snapshot, index, wanted }: { snapshot: NamedSnapshot; index: number; wanted: Pick<Wanted, "inheritedSecrets"> },
  signal: AbortSignal,
): Promise<string[]> {
  const { spec, metadata } = snapshot;
  const { namespace } = metadata;
  const refs = spec.recipe.slice(0, index).flatMap(({ copy }) => copy?.secretKeyRef ?? []);
  const own = refs.map(async (secret) => {
    const { bytes } = await keyedContent(client, namespace, { secret }, signal);
    return [bytes.toString("utf8")];
  });
  const secrets = client.resource(coreResources.secrets, (value) => Secret.parse(value));
  const inherited = wanted.inheritedSecrets.map(async (name) => {
    const found = await secrets.find({ namespace, name }, { signal });
    return Object.values(found?.data ?? {}).map((base64) => Buffer.from(base64, "base64").toString("utf8"));
  });
  return (await Promise.all([...own, ...inherited])).flat();
}

const Secret = z.looseObject({ metadata: ObjectMeta, data: z.record(z.string(), z.string()).nullish() });
