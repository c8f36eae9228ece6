import { RametError } from "../../base/errors.ts";
import {
  existingPaths,
  kubeconfigPaths,
  listedKubeconfigs,
  type KubeconfigSource,
} from "../../kube/kubeconfig-files.ts";
import { clusterDirectory, defaultClusterName } from "../../local/cluster-directory.ts";
import { isSupervised, readStatus } from "../../local/cluster-status.ts";

/**
 * The kubeconfig that a command uses: the given file; else the existing files of `KUBECONFIG`, merged as kubectl merges
 * them; else `~/.kube/config`; else that of the local cluster if it runs.
 *
 * @throws RametError `NotFound` if there is none
 */
export async function kubeconfigSource(
  environment: Readonly<Record<string, string | undefined>>,
  given?: string,
): Promise<Extract<KubeconfigSource, { path: unknown }>> {
  if (given !== undefined) return { path: given };
  const path = await existingPaths(kubeconfigPaths(environment));
  if (path.length > 0) return { path };
  const listed = listedKubeconfigs(environment);
  if (listed.length > 0) {
    throw new RametError(
      "NotFound",
      `Cannot read the kubeconfig: KUBECONFIG names no existing file: ${listed.join(", ")}`,
      {
        hint: "Correct or unset KUBECONFIG, or start a local cluster with: ramet local up",
      },
    );
  }
  const local = localClusterKubeconfig(environment);
  if (local !== undefined) return { path: local };
  throw new RametError("NotFound", "Cannot find a cluster: there is no kubeconfig, and no local cluster is running", {
    hint: "Run `ramet local up`, or set --kubeconfig or KUBECONFIG",
  });
}

/** The kubeconfig of the default local cluster, if it is running. */
function localClusterKubeconfig(environment: Readonly<Record<string, string | undefined>>): string | undefined {
  const directory = clusterDirectory(defaultClusterName, environment);
  const status = readStatus(directory.status);
  return isSupervised(status) && status.phase === "up" ? directory.kubeconfig : undefined;
}
