import { join } from "node:path";
import { readdir } from "node:fs/promises";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import * as z from "zod";
import { RametError } from "../base/errors.ts";
import { userDirectory } from "./user-directory.ts";
import { isProcessRunning, ProcessIdentity } from "./process-identity.ts";

/** The paths of one local cluster. All of its files are below `path`. */
export interface ClusterDirectory {
  name: string;
  path: string;
  kubeconfig: string;
  /** The store's directory, with the data of checkpoints. */
  store: string;
  pods: string;
  /** The volumes and snapshots of the CSI driver. */
  volumes: string;
  /** The cell's programs of each engine that a checkpoint may need. */
  engines: string;
  /** File with the gateway's port on 127.0.0.1. */
  gatewayPort: string;
  /** File with the client API's port on 127.0.0.1. */
  clientApiPort: string;
  /** Directory with the certificates for the domain of sandboxes. */
  tls: string;
  /** File with the API key of `ramet local env`. */
  clientKey: string;
  /** File with the setting of the cluster's processes; see `cluster-setting.ts`. */
  setting: string;
  status: string;
  lock: string;
  /** The log of a part, such as `etcd`. */
  log(part: string): string;
  /** File with the port on 127.0.0.1 on which a part serves its metrics. */
  metricsPort(part: MeasuredPart): string;
}

/** The parts that serve metrics. */
export const measuredParts = ["controller", "gateway", "client-api"] as const;
export type MeasuredPart = (typeof measuredParts)[number];

export const defaultClusterName = "default";

/**
 * The directory of the cluster `name`: `$XDG_DATA_HOME/ramet/<name>`, else `~/.local/share/ramet/<name>` (XDG base
 * directories). It may not exist yet.
 * @throws RametError `InvalidArgument` if the name is not a DNS label
 */
export function clusterDirectory(
  name: string,
  environment: Readonly<Record<string, string | undefined>>,
): ClusterDirectory {
  if (!/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/.test(name)) {
    throw new RametError("InvalidArgument", `The cluster name "${name}" is invalid`, {
      hint: "Use at most 63 lower-case letters, digits and hyphens, with a letter or digit at both ends",
    });
  }
  const path = join(dataDirectory(environment), name);
  return {
    name,
    path,
    kubeconfig: join(path, "kubeconfig"),
    store: join(path, "store"),
    pods: join(path, "pods"),
    volumes: join(path, "volumes"),
    engines: join(path, "engines"),
    gatewayPort: join(path, "gateway-port"),
    clientApiPort: join(path, "client-api-port"),
    tls: join(path, "tls"),
    clientKey: join(path, "client-key"),
    setting: join(path, "setting.json"),
    status: join(path, "status.json"),
    lock: join(path, "up.lock"),
    log: (part) => join(path, `${part}.log`),
    metricsPort: (part) => join(path, `${part}.metrics-port`),
  };
}

/** The parent of all clusters' directories. */
export function dataDirectory(environment: Readonly<Record<string, string | undefined>>): string {
  return userDirectory(environment, "XDG_DATA_HOME", [".local", "share"]);
}

interface LocalCluster {
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

const partStates = ["waiting", "starting", "running", "restarting", "stopping", "stopped"] as const;

export const PartStatus = z.object({
  name: z.string(),
  state: z.enum(partStates),
  process: ProcessIdentity.optional(),
  /** Number of restarts since the cluster was started. */
  restarts: z.number().int().default(0),
  /** How it ended last, or why its start failed. */
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
  try {
    return ClusterStatus.parse(JSON.parse(readFileSync(path, "utf8")));
  } catch {
    return undefined;
  }
}

export function writeStatus(path: string, status: ClusterStatus): void {
  writeFileSync(`${path}.new`, JSON.stringify(status, undefined, 2), { mode: 0o600 });
  renameSync(`${path}.new`, path);
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
  writeFileSync(`${path}.new`, String(process.pid));
  renameSync(`${path}.new`, path);
}

export function isReadyFileOf(path: string, pid: number): boolean {
  try {
    return readFileSync(path, "utf8") === String(pid);
  } catch {
    return false;
  }
}
