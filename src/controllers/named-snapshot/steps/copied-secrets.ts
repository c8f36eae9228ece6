import type { NamedSnapshot } from "../../../api/kinds/named-snapshot.ts";
import type { KubeClient } from "../../../kube/kube-client.ts";
import { keyedContent, secretContents } from "../keyed-content.ts";
import type { Wanted } from "../state.ts";

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
    return [bytes];
  });
  const inherited = wanted.inheritedSecrets.map((name) => secretContents(client, { namespace, name }, signal));
  const contents = await Promise.all([...own, ...inherited]);
  return contents.flat().map((bytes) => bytes.toString("utf8"));
}
