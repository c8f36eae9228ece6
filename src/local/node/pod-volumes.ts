import { chmod, mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import * as z from "zod";
import { expandVariables } from "../../api/cell/container-spec.ts";
import type { Container, Volume } from "../../api/schema/pod-template.ts";
import { RametError } from "../../base/errors.ts";
import type { PodDirectory } from "./pod-directory.ts";
import type { NodePod, PodObjects } from "./pod.ts";

const Item = z.object({ key: z.string(), path: z.string(), mode: z.number().int().optional() });
const Files = z.looseObject({
  name: z.string().default(""),
  secretName: z.string().default(""),
  items: z.array(Item).optional(),
  defaultMode: z.number().int().default(0o644),
  optional: z.boolean().default(false),
});
type Files = z.infer<typeof Files>;

export interface PodVolumesOptions {
  directory: PodDirectory;
  objects: PodObjects;
  /** For `subPathExpr`. */
  variables: ReadonlyMap<string, string>;
}

/**
 * Creates the Pod's volumes in its directory. Returns the host directory of each of the container's mounts by mount path.
 * ConfigMaps and Secrets are read once, when the Pod starts.
 * @throws RametError `NotFound` for a missing object
 */
export async function podVolumes(
  pod: NodePod,
  container: Container,
  options: PodVolumesOptions,
): Promise<ReadonlyMap<string, string>> {
  const made = new Map<string, string>();
  for (const volume of pod.spec.volumes ?? []) {
    const path = join(options.directory.volumes, volume.name);
    if (await make(pod, volume, path, options.objects)) made.set(volume.name, path);
  }
  const mounts = new Map<string, string>();
  for (const { name, mountPath, ...rest } of container.volumeMounts ?? []) {
    const volume = made.get(name);
    if (volume !== undefined) mounts.set(mountPath, await subDirectory(volume, rest, options.variables));
  }
  return mounts;
}

/** Creates the volume. Returns false for the image volume, which is not in the Pod's directory. */
async function make(pod: NodePod, volume: Volume, path: string, objects: PodObjects): Promise<boolean> {
  const { namespace } = pod.metadata;
  if (volume["emptyDir"] !== undefined) {
    await mkdir(path, { recursive: true });
    // Regardless of the umask: a kubelet's emptyDir is world-writable too.
    await chmod(path, 0o777);
  } else if (volume["configMap"] !== undefined) {
    const source = Files.parse(volume["configMap"]);
    const request = { namespace, name: source.name, optional: source.optional };
    await writeFiles(path, source, (await objects.read("configMaps", request)) ?? new Map());
  } else if (volume["secret"] !== undefined) {
    const source = Files.parse(volume["secret"]);
    const request = { namespace, name: source.secretName, optional: source.optional };
    await writeFiles(path, source, (await objects.read("secrets", request)) ?? new Map());
  } else return false;
  return true;
}

async function writeFiles(directory: string, source: Files, values: ReadonlyMap<string, Buffer>): Promise<void> {
  const { items, defaultMode, optional } = source;
  await mkdir(directory, { recursive: true });
  const files = items ?? [...values.keys()].map((key) => ({ key, path: key, mode: defaultMode }));
  for (const { key, path, mode = defaultMode } of files) {
    const value = values.get(key);
    if (value === undefined && optional) continue;
    if (value === undefined)
      throw new RametError(
        "NotFound",
        `Creating a volume failed: ${source.name}${source.secretName} has no key ${key}`,
      );
    // The API server rejects absolute paths and `..`.
    const target = join(directory, path);
    await mkdir(dirname(target), { recursive: true });
    await writeFile(target, value);
    await chmod(target, mode);
  }
}

async function subDirectory(
  volume: string,
  mount: Record<string, unknown>,
  variables: ReadonlyMap<string, string>,
): Promise<string> {
  const { subPath, subPathExpr } = mount;
  const expanded =
    typeof subPathExpr === "string" ? expandVariables(subPathExpr, (name) => variables.get(name)) : subPath;
  if (typeof expanded !== "string" || expanded === "") return volume;
  const path = join(volume, expanded);
  // The API server's validation does not cover the expanded path.
  if (!path.startsWith(`${volume}/`))
    throw new RametError("InvalidArgument", `subPath ${expanded} leads outside its volume`);
  // A ConfigMap's file exists. A directory of an emptyDir is created, as a kubelet does.
  await mkdir(path, { recursive: true }).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  });
  return path;
}
