import { clusterFolder, defaultClusterName } from "../../local/cluster-folder.ts";
import { isSupervised, readStatus } from "../../local/cluster-status.ts";

/** The kubeconfig of the local cluster that `ramet local up` started on this machine, if it runs. */
export function localKubeconfig(environment: Readonly<Record<string, string | undefined>>): string | undefined {
  const folder = clusterFolder(defaultClusterName, environment);
  const status = readStatus(folder.status);
  return isSupervised(status) && status.phase === "up" ? folder.kubeconfig : undefined;
}
