import * as z from "zod";

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
