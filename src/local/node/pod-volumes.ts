import { chmod, mkdir, stat } from "node:fs/promises";
import { isAbsolute, join, normalize } from "node:path";
import * as z from "zod";
import { expandVariables } from "../../api/pod/container-spec.ts";
import type { Container, Volume } from "../../api/schema/pod-template.ts";
import { RametError } from "../../base/errors.ts";
import type { Claims } from "./claims.ts";
import type { PodDirectory } from "./pod-directory.ts";
import { type Bind, directoryInside } from "./pod-view.ts";
import type { NodePod, PodObjects } from "./pod.ts";
import { fileVolumeKinds, writeVolumeFiles } from "./volume-files.ts";

export interface PodVolumesOptions {
  directory: PodDirectory;
  objects: PodObjects;
  claims: Pick<Claims, "directoryOf">;
}

/** A volume of a Pod on the machine. */
export interface PodVolume {
  path: string;
  /** Whether nothing may write to it, as to the files of an object. */
  readOnly: boolean;
}

/** A mount of a container: a path below a volume, at a path in the container. */
export interface VolumeMount {
  target: string;
  volume: PodVolume;
  /** Relative; empty for the whole volume. Not resolved: what a container wrote into the volume can be a symbolic link. */
  subPath: string;
  readOnly: boolean;
}

/**
 * Creates the Pod's volumes in its directory, and returns them by name. Existing ones are not touched: a container may have
 * replaced their files by links.
 * @throws RametError `NotFound` for a missing object, and the errors of `Claims.directoryOf`
 */
export async function podVolumes(pod: NodePod, options: PodVolumesOptions): Promise<ReadonlyMap<string, PodVolume>> {
  const made = new Map<string, PodVolume>();
  for (const volume of pod.spec.volumes ?? []) {
    const found = await make(pod, volume, options);
    if (found !== undefined) made.set(volume.name, found);
  }
  return made;
}

const ClaimSource = z.looseObject({ claimName: z.string(), readOnly: z.boolean().default(false) });

/** Returns undefined for the image volume, which is not in the Pod's directory. */
async function make(
  pod: NodePod,
  volume: Volume,
  { directory, objects, claims }: PodVolumesOptions,
): Promise<PodVolume | undefined> {
  const path = join(directory.volumes, volume.name);
  if (volume["persistentVolumeClaim"] !== undefined) {
    const { claimName, readOnly } = ClaimSource.parse(volume["persistentVolumeClaim"]);
    return { path: await claims.directoryOf(pod, claimName), readOnly };
  }
  if (volume["emptyDir"] !== undefined) {
    await mkdir(path, { recursive: true });
    // Regardless of the umask: a kubelet's emptyDir is world-writable too.
    await chmod(path, 0o777);
    return { path, readOnly: false };
  }
  if (!fileVolumeKinds.some((kind) => volume[kind] !== undefined)) return undefined;
  if ((await stat(path).catch(() => undefined)) === undefined)
    await writeVolumeFiles(pod, volume, { directory: path, objects });
  return { path, readOnly: true };
}

/**
 * The mounts of a container.
 * @param variables the container's, for `subPathExpr`
 * @throws RametError `InvalidArgument`
 */
export function volumeMounts(
  container: Container,
  volumes: ReadonlyMap<string, PodVolume>,
  variables: ReadonlyMap<string, string>,
): VolumeMount[] {
  return (container.volumeMounts ?? []).flatMap(({ name, mountPath: target, ...rest }) => {
    const volume = volumes.get(name);
    if (volume === undefined) return [];
    return [
      { target, volume, subPath: subPathOf(rest, variables), readOnly: volume.readOnly || rest.readOnly === true },
    ];
  });
}

/**
 * Whether a container's mounts must be shown to its cell when it starts: a claim is not in the Pod's directory, and a sub-path
 * must not lead through a symbolic link that a container has made.
 */
export function needsBinds(pod: NodePod, { volumeMounts = [] }: Container): boolean {
  const claims = new Set(
    pod.spec.volumes?.filter((volume) => volume["persistentVolumeClaim"] !== undefined).map(({ name }) => name),
  );
  return volumeMounts.some(
    (mount) => claims.has(mount.name) || mount["subPath"] !== undefined || mount["subPathExpr"] !== undefined,
  );
}

/** Shows the mounts of a container to its cell: only these, and no path through a symbolic link. */
export function volumeBinds(mounts: readonly VolumeMount[]): Bind[] {
  return mounts.map(({ volume, subPath, readOnly }, index) => ({
    source: volume.path,
    below: subPath,
    target: join(directoryInside.path, "mounts", String(index)),
    readOnly,
  }));
}

function subPathOf({ subPath, subPathExpr }: Record<string, unknown>, variables: ReadonlyMap<string, string>): string {
  const expanded =
    typeof subPathExpr === "string" ? expandVariables(subPathExpr, (name) => variables.get(name)) : subPath;
  if (typeof expanded !== "string" || expanded === "") return "";
  // The API server's validation does not cover the expanded path.
  const path = normalize(expanded).replace(/\/$/, "");
  if (isAbsolute(path) || path.split("/").includes(".."))
    throw new RametError("InvalidArgument", `subPath ${expanded} leads outside its volume`);
  return path === "." ? "" : path;
}
