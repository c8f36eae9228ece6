import { inClusterConnection, type Connection } from "../../kube/connection.ts";
import { connectionFromKubeconfig } from "../../kube/kubeconfig.ts";
import type { ClusterOptions } from "../cluster/cluster.ts";
import { kubeconfigSource } from "../cluster/kubeconfig-source.ts";
import type { Io } from "../io.ts";

/** In a Pod, its service account; else as forevery other command. */
export async function serverConnection(
  io: Io,
  { kubeconfig, context }: Pick<ClusterOptions, "kubeconfig" | "context">,
): Promise<Connection> {
  const { environment, clock } = io;
  const isPod = environment["KUBERNETES_SERVICE_HOST"] !== undefined;
  if (isPod && kubeconfig === undefined && environment["KUBECONFIG"] === undefined) {
    return inClusterConnection({ environment, clock });
  }
  const source = await kubeconfigSource(environment, kubeconfig);
  return connectionFromKubeconfig({ ...source, clock, ...(context === undefined ? {} : { context }) });
}
