import { clusterFolder, defaultClusterName } from "./cluster-directory.ts";
import { isSupervised, readStatus } from "./cluster-status.ts";

/** The kubeconfig of the local cluster of that name, if it runs. */
export function localClusterKubeconfig(
  environment: Readonly<Record<string, string | undefined>>,
  name: string = defaultClusterName,
): string | undefined {
  const folder = clusterFolder(name, environment);
  const status = readStatus(folder.status);
  return isSupervised(status) && status.phase === "up" ? folder.kubeconfig : undefined;
}
