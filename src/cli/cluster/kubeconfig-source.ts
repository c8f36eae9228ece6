import { basename, dirname, resolve } from "node:path";
import { RametError } from "../../base/errors.ts";
import {
  existingPaths,
  kubeconfigPaths,
  listedKubeconfigs,
  type KubeconfigSource,
} from "../../kube/kubeconfig-files.ts";
import { clusterDirectory, dataDirectory, defaultClusterName } from "../../local/cluster-directory.ts";
import { localClusters, isSupervised, readStatus } from "../../local/cluster-status.ts";

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
      { hint: "Correct or unset KUBECONFIG, or start a local cluster with: ramet local up" },
    );
  }
  const local = localClusterKubeconfig(environment);
  if (local !== undefined) return { path: local };
  throw new RametError(
    "NotFound",
    "Cannot find a cluster: there is no kubeconfig, and the local cluster default is down",
    { hint: await hintWithoutCluster(environment) },
  );
}

async function hintWithoutCluster(environment: Readonly<Record<string, string | undefined>>): Promise<string> {
  const running = (await localClusters(environment)).find(({ phase }) => phase === "up");
  return running === undefined
    ? "Run `ramet local up`, or set --kubeconfig or KUBECONFIG"
    : `To use the local cluster ${running.name}: export KUBECONFIG=${running.kubeconfig}`;
}

/** The name of the local cluster whose kubeconfig is given, or is the first one of `KUBECONFIG`. */
export function selectedLocalCluster(
  environment: Readonly<Record<string, string | undefined>>,
  given?: string,
): string | undefined {
  const [first] = given === undefined ? listedKubeconfigs(environment) : [given];
  if (first === undefined) return undefined;
  const directory = dirname(resolve(first));
  const isLocal = basename(first) === "kubeconfig" && dirname(directory) === dataDirectory(environment);
  return isLocal ? basename(directory) : undefined;
}

/** The kubeconfig of the default local cluster, if it is running. */
function localClusterKubeconfig(environment: Readonly<Record<string, string | undefined>>): string | undefined {
  const directory = clusterDirectory(defaultClusterName, environment);
  const status = readStatus(directory.status);
  return isSupervised(status) && status.phase === "up" ? directory.kubeconfig : undefined;
}
