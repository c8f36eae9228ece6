import { chmod, mkdir, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import * as z from "zod";
import type { Volume } from "../../api/schema/pod-template.ts";
import { RametError } from "../../base/errors.ts";
import { podFieldFile } from "./pod-variables.ts";
import type { NodePod, PodObjects } from "./pod.ts";

const Item = z.object({ key: z.string(), path: z.string(), mode: z.number().int().optional() });
const Files = z.looseObject({
  name: z.string().default(""),
  secretName: z.string().default(""),
  items: z.array(Item).optional(),
  optional: z.boolean().default(false),
});
const FieldItem = z.looseObject({
  path: z.string(),
  mode: z.number().int().optional(),
  fieldRef: z.looseObject({ fieldPath: z.string() }).optional(),
});
const Fields = z.looseObject({ items: z.array(FieldItem).default([]) });
const Source = z.looseObject({
  configMap: Files.optional(),
  secret: Files.optional(),
  downwardAPI: Fields.optional(),
});
type Source = z.infer<typeof Source>;
const Projected = z.looseObject({ sources: z.array(Source).default([]) });
const Modes = z.looseObject({ defaultMode: z.number().int().default(0o644) });

interface VolumeFile {
  path: string;
  content: Buffer | string;
  mode?: number | undefined;
}

/** The kinds of volumes whose files come from objects. */
export const fileVolumeKinds = ["configMap", "secret", "downwardAPI", "projected"] as const;

/**
 * Writes the files of such a volume into its directory. Objects are read once, when the Pod starts.
 * @throws RametError `NotFound` for a missing object or key
 */
export async function writeVolumeFiles(
  pod: NodePod,
  volume: Volume,
  { directory, objects }: { directory: string; objects: PodObjects },
): Promise<void> {
  const kind = fileVolumeKinds.find((one) => volume[one] !== undefined) ?? "configMap";
  const sources = kind === "projected" ? Projected.parse(volume[kind]).sources : [Source.parse(volume)];
  const { defaultMode } = Modes.parse(volume[kind]);
  const files = (await Promise.all(sources.map((source) => filesOf(pod, source, objects)))).flat();
  // A directory that exists is complete.
  const unfinished = `${directory}.new`;
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(unfinished, { recursive: true });
  for (const { path, content, mode = defaultMode } of files) {
    // The API server rejects absolute paths and `..`.
    const target = join(unfinished, path);
    await mkdir(dirname(target), { recursive: true });
    await writeFile(target, content);
    await chmod(target, mode);
  }
  await rename(unfinished, directory);
}

async function filesOf(
  pod: NodePod,
  { configMap, secret, downwardAPI }: Source,
  objects: PodObjects,
): Promise<VolumeFile[]> {
  const { namespace } = pod.metadata;
  if (downwardAPI !== undefined)
    return downwardAPI.items.map(({ path, mode, fieldRef }) => ({
      path,
      mode,
      content: podFieldFile(pod, fieldRef?.fieldPath ?? "", `the file ${path} of a downwardAPI volume`),
    }));
  const files = configMap ?? secret;
  if (files === undefined) return [];
  const { items, optional } = files;
  const name = files.secretName === "" ? files.name : files.secretName;
  const kind = configMap === undefined ? "secrets" : "configMaps";
  const values = (await objects.read(kind, { namespace, name, optional })) ?? new Map<string, Buffer>();
  const chosen = items ?? [...values.keys()].map((key) => ({ key, path: key, mode: undefined }));
  return chosen.flatMap(({ key, path, mode }) => {
    const content = values.get(key);
    if (content !== undefined) return [{ path, content, mode }];
    if (optional) return [];
    throw new RametError("NotFound", `Creating a volume failed: ${name} has no key ${key}`);
  });
}
