import { mkdir, readFile } from "node:fs/promises";
import { dirname } from "node:path";
import * as z from "zod";
import { hasSystemCode, RametError } from "../base/errors.ts";
import { defaultDomain } from "./cluster-directory.ts";
import { replaceFile } from "./files.ts";

/** The setting of the cluster's processes. `up` writes it to a file in the cluster's directory. */
export const ClusterSetting = z.object({
  v: z.literal(1),
  name: z.string(),
  /** The command of `ramet`: Node, and the file that it runs. */
  program: z.array(z.string()).min(1),
  /** The command of the cell. */
  cell: z.array(z.string()).min(1),
  tools: z.object({
    etcd: z.string(),
    "kube-apiserver": z.string(),
    runsc: z.string(),
    "ramet-guest": z.string(),
    "ramet-link": z.string(),
    "ramet-gofer": z.string().optional(),
  }),
  /** The image name in the Pods of cells. It is never pulled. It contains the engine's id. */
  cellImage: z.string(),
  /** The id of the engine: the builds of `runsc` and `ramet-guest`. */
  cellEngine: z.string().optional(),
  /** The limits of sandboxes whose template declares none. 0: no limit. Without it, a share of the machine. */
  defaultLimits: z
    .object({ memoryBytes: z.number().int().min(0), cpuMillis: z.number().int().min(0) })
    .partial()
    .default({}),
  /** Whether sandboxes can connect to private networks, such as the one that the machine is in. */
  allowPrivateNetworks: z.boolean().default(false),
  /** Whether restores hash all content of a checkpoint. */
  verifyRestores: z.boolean().default(false),
  /** See `ApiServerOptions`. */
  apiServerGogc: z.number().int().min(1).optional(),
  /** The longest pause before a process of the cluster that keeps ending is started again. Without it, ten seconds. */
  longestRestartPauseMilliseconds: z.number().int().min(0).optional(),
  /** The gateway serves TLS for the names below it. */
  domain: z.string().default(defaultDomain),
});
export type ClusterSetting = z.infer<typeof ClusterSetting>;

/** The name of the cell image in the Pods of a local cluster, by the engine that it has. */
export function localCellImage(engine: string): string {
  return `ramet-cell:${engine}`;
}

/** @throws RametError `NotFound`, `InvalidArgument` */
export async function readSetting(path: string): Promise<ClusterSetting> {
  try {
    return ClusterSetting.parse(JSON.parse(await readFile(path, "utf8")));
  } catch (error) {
    const code = hasSystemCode(error, "ENOENT") ? "NotFound" : "InvalidArgument";
    throw new RametError(code, `Reading the cluster's setting ${path} failed`, {
      hint: "Run: ramet local up",
      cause: error,
    });
  }
}

export async function writeSetting(path: string, setting: ClusterSetting): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await replaceFile(path, JSON.stringify(setting, undefined, 2));
}
