import { readdir } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { clusterDirectory, dataDirectory, type ClusterDirectory } from "./cluster-directory.ts";
import { readIfExistsSync, readJsonSync, replaceFileSync } from "./files.ts";
import { isProcessRunning, ProcessIdentity } from "../base/process-identity.ts";

export const partStates = ["preparing", "waiting", "starting", "running", "restarting", "stopping", "stopped"] as const;

export const PartStatus = z.object({
  name: z.string(),
  state: z.enum(partStates),
  process: ProcessIdentity.optional(),
  /** Number of restarts since the cluster was started. */
  restarts: z.number().int().default(0),
  /** Since when its program is being built, if it is `preparing`. */
  since: z.string().optional(),
  /** How it ended last, or why its start failed; of one that is `preparing`, what is being done, or why that failed. */
  message: z.string().optional(),
});
export type PartStatus = z.infer<typeof PartStatus>;

/** The cluster's status. The supervisor writes it to a file in the cluster's directory. */
export const ClusterStatus = z.object({
  v: z.literal(1),
  name: z.string(),
  phase: z.enum(["starting", "up", "stopping", "down", "failed"]),
  /** Why `phase` is `failed`. */
  message: z.string().optional(),
  supervisor: ProcessIdentity,
  startedAt: z.string(),
  /** URL of the API server. */
  server: z.string().optional(),
  parts: z.array(PartStatus),
});
export type ClusterStatus = z.infer<typeof ClusterStatus>;

/** The last written status. Undefined if it is missing or unreadable. */
export function readStatus(path: string): ClusterStatus | undefined {
  return readJsonSync(ClusterStatus, path);
}

export function writeStatus(path: string, status: ClusterStatus): void {
  replaceFileSync(path, JSON.stringify(status, undefined, 2));
}

/** Whether the status's supervisor is running. If not, it was killed. */
export function isSupervised(status: ClusterStatus | undefined): status is ClusterStatus {
  return status !== undefined && isProcessRunning(status.supervisor);
}

/** The file to which a part of a cluster writes its process id when it is ready. The supervisor removes it first. */
export function readyFilePath(directory: ClusterDirectory, part: string): string {
  return join(directory.path, `${part}.ready`);
}

export function writeReadyFile(path: string): void {
  replaceFileSync(path, String(process.pid));
}

export function isReadyFileOf(path: string, pid: number): boolean {
  return readIfExistsSync(path) === String(pid);
}

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
