import type { NamedSnapshot } from "../../api/named-snapshot.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { keyedContent } from "./keyed-content.ts";

/**
 * The Secrets that a step of the recipe can read, as those before it have copied them.
 * @throws RametError `NotFound` when one is gone
 */
export function copiedSecrets(
  client: KubeClient,
  { spec, metadata }: NamedSnapshot,
  index: number,
  signal: AbortSignal,
): Promise<string[]> {
  const refs = spec.recipe.slice(0, index).flatMap(({ copy }) => copy?.secretKeyRef ?? []);
  return Promise.all(
    refs.map(async (secret) =>
      (await keyedContent(client, metadata.namespace, { secret }, signal)).bytes.toString("utf8"),
    ),
  );
}
