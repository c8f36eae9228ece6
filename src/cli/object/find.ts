import { Checkpoint } from "../../api/kinds/checkpoint.ts";
import { RametError } from "../../base/errors.ts";
import type { KubeObject } from "../../kube/object.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { userKinds, type UserKindName } from "./user-kind.ts";

/**
 * Finds an object by its name, and a checkpoint also by its id, which `ramet checkpoint create` prints.
 *
 * @throws RametError `NotFound`
 */
export async function findObject(
  cluster: Cluster,
  kindName: UserKindName,
  name: string,
  signal: AbortSignal,
): Promise<KubeObject> {
  const resource = cluster.raw(userKinds[kindName].kind);
  try {
    return await cluster.get(resource, name, signal);
  } catch (error) {
    if (kindName !== "checkpoint" || !(error instanceof RametError) || error.code !== "NotFound") throw error;
    const { items } = await resource.list({ namespace: cluster.namespace, signal });
    const found = items.find((item) => Checkpoint.safeParse(item).data?.status?.checkpointId === name);
    if (found === undefined) throw error;
    return found;
  }
}
