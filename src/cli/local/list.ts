import { readdir } from "node:fs/promises";
import { clusterDirectory, dataDirectory } from "../../local/cluster-directory.ts";
import { isSupervised, readStatus } from "../../local/cluster-status.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Io, printLine } from "../io.ts";
import { table } from "../output/table.ts";

export interface LocalCluster {
  name: string;
  /** Of its supervisor; `down` if none runs. */
  phase: string;
  kubeconfig: string;
  path: string;
}

/** `ramet local ls`: lists the clusters of this user on this machine. */
export async function listClusters(io: Io, { output }: { output: "table" | "json" }): Promise<number> {
  const clusters = await localClusters(io.environment);
  if (output === "json") printLine(io.stdout, JSON.stringify(clusters, undefined, 2));
  else if (clusters.length === 0) printLine(io.stderr, "No local cluster. Start one with: ramet local up");
  else {
    const rows = clusters.map(({ name, phase, kubeconfig }) => [name, phase, kubeconfig]);
    io.stdout.write(table(["NAME", "PHASE", "KUBECONFIG"], rows));
  }
  return exitCodes.ok;
}

/** The clusters that have ever been started and were not purged, by name. */
export async function localClusters(environment: Io["environment"]): Promise<LocalCluster[]> {
  const names = await readdir(dataDirectory(environment)).catch(() => []);
  return names.sort().flatMap((name) => {
    if (!/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(name)) return [];
    const { status: file, kubeconfig, path } = clusterDirectory(name, environment);
    const status = readStatus(file);
    if (status === undefined) return [];
    return [{ name, phase: isSupervised(status) ? status.phase : "down", kubeconfig, path }];
  });
}
