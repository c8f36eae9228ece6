import * as z from "zod";
import { parsedJson } from "../../base/tolerant-parse.ts";
import { annotations } from "../names/labels.ts";
import type { PodTemplateSpec } from "../schema/pod-template.ts";
import type { CellState } from "../wire/cell-api.ts";
import { mainContainer } from "./container-spec.ts";

/** How an image is started: its fields that apply to fields that a Pod's container leaves out. `RAMET_IMAGE_CONFIG` of a cell. */
export const ImageConfig = z.object({
  entrypoint: z.array(z.string()).default([]),
  cmd: z.array(z.string()).default([]),
  /** `NAME=value`, as in the image. */
  env: z.array(z.string()).default([]),
  workingDir: z.string().default(""),
  /** The ids of the image's user. */
  user: z.object({ uid: z.number().int().min(0), gid: z.number().int().min(0) }).optional(),
  /** As in the image, such as `app` or `1000:staff`, if only its files tell the ids. The cell reads them. */
  userName: z.string().min(1).optional(),
  /** The digest of the image's configuration, which identifies its files too. */
  digest: z.string().optional(),
  /** As in Go: `amd64`, `arm64`. */
  architecture: z.string().min(1).optional(),
});
export type ImageConfig = z.infer<typeof ImageConfig>;

/** A container's image whose name was resolved once, as JSON in the annotation `ramet.dev/image`. */
export const ResolvedImage = z.object({
  /** The name in the template. */
  name: z.string().min(1),
  /** `repository@sha256:…`, of the manifest for the architecture of `config`. */
  reference: z.string().regex(/^\S+@sha256:[0-9a-f]{64}$/),
  config: ImageConfig,
});
export type ResolvedImage = z.infer<typeof ResolvedImage>;

/** An annotation of Kubernetes has at most 256 KiB together with all others, and a variable of Linux 128 KiB. */
export const mostImageBytes = 64 * 1024;

/**
 * The image that an object recorded for a container's image. Undefined if it recorded none, or that of another name: whoever
 * changes `image` need not know the annotation.
 */
export function recordedImage(
  metadata: { annotations?: Record<string, string> | undefined } | undefined,
  name: string,
): ResolvedImage | undefined {
  const image = imageIn(metadata);
  return image?.name === name ? image : undefined;
}

function imageIn(metadata: Parameters<typeof recordedImage>[0]): ResolvedImage | undefined {
  const text = metadata?.annotations?.[annotations.image];
  return text === undefined || text.length > mostImageBytes ? undefined : parsedJson(ResolvedImage, text);
}

/**
 * The image of a template if a checkpoint has recorded the same one, also under another name: the digests tell, that of the template's
 * own record or of its reference.
 */
export function capturedImage(
  checkpoint: Parameters<typeof recordedImage>[0],
  template: PodTemplateSpec,
): ResolvedImage | undefined {
  const { image: name } = mainContainer(template);
  const captured = imageIn(checkpoint);
  if (captured === undefined || captured.name === name) return captured;
  const own = imageOfTemplate(template);
  const { digest } = captured.config;
  if (own !== undefined) return digest !== undefined && own.config.digest === digest ? own : undefined;
  const [, pinned] = name.split("@");
  return captured.reference.split("@")[1] === pinned ? { ...captured, name, reference: name } : undefined;
}

/** The image that a template recorded for the container that becomes the sandbox. */
export function imageOfTemplate(template: PodTemplateSpec): ResolvedImage | undefined {
  return recordedImage(template.metadata, mainContainer(template).image);
}

/** Why probes of a sandbox fail if neither its template nor its image names a program. The reason is that of the local node. */
export const missingEntrypoint = {
  reason: "EntrypointMissing",
  cause: "no program was started in the sandbox, because its template has no command and its image has no entrypoint",
  hint: "Set command in the template, or build the image with an entrypoint",
} as const;

/** Whether the cell has started no program. The programs of a restored sandbox are in its memory. */
export function startedNothing({ lacksEntrypoint, memory }: CellState): boolean {
  return lacksEntrypoint === true && memory === undefined;
}

/** A container of a cell, as the API server has it. */
interface CellContainer {
  env?: readonly { name: string; value?: string | undefined }[] | undefined;
}

/** As {@link startedNothing}, from the Pod. Only the local node knows its images, so their configuration is not in its Pods. */
export function startsNothing({ env = [] }: CellContainer): boolean {
  const valueOf = (name: string) => env.find((one) => one.name === name)?.value;
  const cell = parsedJson(Started, valueOf("RAMET_CELL"));
  const image = parsedJson(ImageConfig, valueOf("RAMET_IMAGE_CONFIG"));
  if (cell?.start !== "boot" || image === undefined) return false;
  const { command, args } = cell.container;
  return [command, args, image.entrypoint, image.cmd].every((words) => words.length === 0);
}

const Words = z.array(z.string()).default([]);

/** The fields of a cell's configuration that say what it starts, of any release. */
const Started = z.object({ start: z.string(), container: z.object({ command: Words, args: Words }) });
