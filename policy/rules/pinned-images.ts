import * as z from "zod";
import { isPinned, parseImageReference } from "../../src/api/names/image-reference.ts";
import { controllerName } from "../../src/api/names/system-names.ts";
import { defineRule, kruise, type PolicyResource, specOf } from "../rule.ts";

/** What is built from a tag that moves is not what was reviewed. */
export const pinnedImages = defineRule({
  name: "ramet-pinned-images",
  description: "Images of sandboxes and of the controllers are named by digest, or by a tag that is not latest.",
  remedy: "Write the image as repository@sha256:…, or with the tag of a release.",
  settings: {
    digestOnly: z.boolean().default(false).describe("Whether a tag does not do."),
    allowed: z
      .array(z.string())
      .default([])
      .describe("Images that need no tag, such as one that a machine brings along."),
  },
  validate: (resource, { digestOnly, allowed }) =>
    imagesOf(resource)
      .filter((image) => !allowed.includes(image))
      .flatMap((image) => {
        const reference = parseImageReference(image);
        if (reference === undefined) return [`${image} is no image's name`];
        if (digestOnly && reference.digest === undefined) return [`${image} is not named by digest`];
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
