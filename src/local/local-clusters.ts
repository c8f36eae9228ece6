import { readdir } from "node:fs/promises";
import { clusterDirectory, dataDirectory } from "./cluster-directory.ts";
import { isSupervised, readStatus } from "./cluster-status.ts";

export interface LocalCluster {
  name: string;
  /** The phase of its supervisor; `down` if none runs. */
  phase: string;
  kubeconfig: string;
  path: string;
}

/** The clusters that have ever been started and were not purged, by name. */
export async function localClusters(
  environment: Readonly<Record<string, string | undefined>>,
): Promise<LocalCluster[]> {
  const names = await readdir(dataDirectory(environment)).catch(() => []);
  return names.sort().flatMap((name) => {
    if (!/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(name)) return [];
    const { status: file, kubeconfig, path } = clusterDirectory(name, environment);
    const status = readStatus(file);
    if (status === undefined) return [];
    return [{ name, phase: isSupervised(status) ? status.phase : "down", kubeconfig, path }];
  });
}
