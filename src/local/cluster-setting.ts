import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { dirname } from "node:path";
import * as z from "zod";
import { RametError } from "../base/errors.ts";

/** What `up` has found out and the cluster's processes run with; a file in the cluster's directory. */
export const ClusterSetting = z.object({
  v: z.literal(1),
  name: z.string(),
  /** The program `ramet` as it is started here: Node, and the file that it runs. */
  program: z.array(z.string()).min(1),
  /** The cell's program. */
  cell: z.array(z.string()).min(1),
  tools: z.object({
    etcd: z.string(),
    "kube-apiserver": z.string(),
    runsc: z.string(),
    "ramet-guest": z.string(),
    "ramet-link": z.string(),
  }),
  /** What the Pods of this machine's cells name as their image; nothing is pulled by this name. */
  cellImage: z.string(),
});
export type ClusterSetting = z.infer<typeof ClusterSetting>;

/** @throws RametError `NotFound`, `InvalidArgument` */
export async function readSetting(path: string): Promise<ClusterSetting> {
  try {
    return ClusterSetting.parse(JSON.parse(await readFile(path, "utf8")));
  } catch (error) {
    const missing = (error as NodeJS.ErrnoException).code === "ENOENT";
    throw new RametError(missing ? "NotFound" : "InvalidArgument", `The cluster's setting ${path} cannot be read`, {
      hint: "It is made by: ramet local up",
      cause: error,
    });
  }
}

export async function writeSetting(path: string, setting: ClusterSetting): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await writeFile(`${path}.new`, JSON.stringify(setting, undefined, 2), { mode: 0o600 });
  await rename(`${path}.new`, path);
}
