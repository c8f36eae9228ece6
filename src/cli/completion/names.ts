import { coreResources, refOf, type ResourceRef } from "../../kube/resource-ref.ts";
import { readKubeconfig } from "../../kube/kubeconfig-files.ts";
import { localClusters } from "../../local/cluster-directory.ts";
import { type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { kubeconfigSource } from "../cluster/kubeconfig-source.ts";
import { isVolumeKind, type VolumeKindName } from "../explain/volume-kinds.ts";
import { volumeKinds } from "../explain/volume-resources.ts";
import type { Io } from "../io.ts";
import { type UserKindName, userKinds } from "../object/user-kind.ts";

/** Where names come from. */
export type NameSource = UserKindName | VolumeKindName | "namespace" | "serviceAccount" | "context" | "localCluster";

/** All names of a source, in the namespace that the words select. @throws RametError */
export async function namesFrom(
  io: Io,
  source: NameSource,
  selected: ClusterOptions,
  signal: AbortSignal,
): Promise<string[]> {
  if (source === "localCluster") return (await localClusters(io.environment)).map(({ name }) => name);
  if (source === "context") {
    const { contexts } = await readKubeconfig(await kubeconfigSource(io.environment, selected.kubeconfig));
    return contexts.map(({ name }) => name);
  }
  return withCluster(io, selected, async ({ client, namespace }) => {
    const ref = refOfSource(source);
    const { items } = await client.resource(ref).list({ ...(ref.namespaced ? { namespace } : {}), signal });
    return items.map(({ metadata }) => metadata.name);
  });
}

function refOfSource(source: Exclude<NameSource, "context" | "localCluster">): ResourceRef {
  if (source === "namespace") return coreResources.namespaces;
  if (isVolumeKind(source)) return volumeKinds[source];
  return source === "serviceAccount" ? coreResources.serviceAccounts : refOf(userKinds[source].kind);
}
