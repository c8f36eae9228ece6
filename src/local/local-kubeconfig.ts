import { clusterDirectory, defaultClusterName } from "./cluster-directory.ts";
import { isSupervised, readStatus } from "./cluster-status.ts";

/** The kubeconfig of the local cluster of that name, if it is running. */
export function localClusterKubeconfig(
  environment: Readonly<Record<string, string | undefined>>,
  name: string = defaultClusterName,
): string | undefined {
  const directory = clusterDirectory(name, environment);
  const status = readStatus(directory.status);
  return isSupervised(status) && status.phase === "up" ? directory.kubeconfig : undefined;
}
