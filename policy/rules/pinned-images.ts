import * as z from "zod";
import { isPinned, parseImageReference } from "../../src/api/names/image-reference.ts";
import { controllerName } from "../../src/api/names/system-names.ts";
import { defineRule, kruise, type PolicyResource, specOf } from "../rule.ts";

/** A moved tag would change the content after the review. */
export const pinnedImages = defineRule({
  name: "ramet-pinned-images",
  description: "Images of sandboxes and controllers must have a digest, or a tag other than latest.",
  remedy: "Pin the image as repository@sha256:…, or use the tag of a release.",
  settings: {
    digestOnly: z.boolean().default(false).describe("Whether to require a digest."),
    allowed: z
      .array(z.string())
      .default([])
      .describe("Images that do not need a tag, such as images that are preinstalled on a machine."),
  },
  validate: (resource, { digestOnly, allowed }) =>
    imagesOf(resource)
      .filter((image) => !allowed.includes(image))
      .flatMap((image) => {
        const reference = parseImageReference(image);
        if (reference === undefined) return [`${image} is not a valid image reference`];
        if (digestOnly && reference.digest === undefined) return [`${image} has no digest`];
        return isPinned(reference) ? [] : [`${image} has neither a digest nor a tag other than latest`];
      }),
});

function imagesOf(resource: PolicyResource): string[] {
  for (const kind of ["SandboxTemplate", "SandboxSet", "Sandbox"]) {
    const spec = specOf(resource, kruise, kind);
    if (spec !== undefined) return podImages(PodOwner.parse(spec));
  }
  const deployment = specOf(resource, "apps", "Deployment");
  if (deployment === undefined || WithName.parse(resource.inputs).metadata?.name !== controllerName) return [];
  return podImages(PodOwner.parse(deployment));
}

function podImages({ template }: z.output<typeof PodOwner>): string[] {
  const { containers = [], initContainers = [], volumes = [] } = template?.spec ?? {};
  const images = [...initContainers, ...containers].flatMap(({ image, args = [] }) => [
    ...(image === undefined ? [] : [image]),
    ...args.filter((_, at) => args[at - 1] === "--cell-image"),
  ]);
  return [...images, ...volumes.flatMap(({ image }) => image?.reference ?? [])];
}

const Containers = z.array(z.object({ image: z.string().optional(), args: z.array(z.string()).optional() }));
const PodOwner = z.object({
  template: z
    .object({
      spec: z
        .object({
          containers: Containers.optional(),
          initContainers: Containers.optional(),
          volumes: z.array(z.object({ image: z.object({ reference: z.string().optional() }).optional() })).optional(),
        })
        .optional(),
    })
    .optional(),
});
const WithName = z.object({ metadata: z.object({ name: z.string().optional() }).optional() });
