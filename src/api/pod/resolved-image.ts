import * as z from "zod";
import { annotations } from "../names/labels.ts";
import type { PodTemplateSpec } from "../schema/pod-template.ts";
import { mainContainer } from "./container-spec.ts";
import { ImageConfig } from "./image-config.ts";

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
  const text = metadata?.annotations?.[annotations.image];
  if (text === undefined || text.length > mostImageBytes) return undefined;
  try {
    const image = ResolvedImage.parse(JSON.parse(text));
    return image.name === name ? image : undefined;
  } catch {
    return undefined;
  }
}

/** The image that a template recorded for the container that becomes the sandbox. */
export function imageOfTemplate(template: PodTemplateSpec): ResolvedImage | undefined {
  return recordedImage(template.metadata, mainContainer(template).image);
}
