import { RametError } from "../../base/errors.ts";
import type { NamedSnapshot } from "../../api/kinds/named-snapshot.ts";
import type { CopiedContent } from "../../api/snapshot/snapshot-inputs.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { keyedContent } from "./keyed-content.ts";

/**
 * What stands in a digest for what steps copy from ConfigMaps and Secrets, by the step's index; or what is missing.
 * @throws RametError when it cannot be read although it may be there
 */
export async function copiedContents(
  client: KubeClient,
  { spec, metadata }: NamedSnapshot,
  signal?: AbortSignal,
): Promise<ReadonlyMap<number, CopiedContent> | { problem: RametError }> {
  try {
    const found = await Promise.all(
      spec.recipe.map(async ({ copy }, index): Promise<[number, CopiedContent][]> => {
        const source =
          copy?.configMapKeyRef === undefined
            ? copy?.secretKeyRef && { secret: copy.secretKeyRef }
            : { configMap: copy.configMapKeyRef };
        if (source === undefined) return [];
        return [[index, (await keyedContent(client, metadata.namespace, source, signal)).identity]];
      }),
    );
    return new Map(found.flat());
  } catch (thrown) {
    const error = RametError.from(thrown);
    // What is not there is the user's to make; all else is tried again.
    if (error.code !== "NotFound") throw error;
    return { problem: error };
  }
}
