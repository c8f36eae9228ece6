import * as z from "zod";

/** How an image is started: fields of the OCI image configuration, in Kubernetes' spelling. */
export const ImageConfig = z.object({
  entrypoint: z.array(z.string()).default([]),
  cmd: z.array(z.string()).default([]),
  /** `NAME=value`, as in the image. */
  env: z.array(z.string()).default([]),
  workingDir: z.string().default("/"),
  /** As in the image: a name or number, optionally with `:group`. Empty: root. */
  user: z.string().default(""),
});
export type ImageConfig = z.infer<typeof ImageConfig>;

/** An image unpacked on this machine. */
export interface Image {
  name: string;
  /** The unpacked root filesystem. Read-only by convention. */
  rootPath: string;
  config: ImageConfig;
  /** `sha256:` and 64 hex digits: the digest of the OCI configuration, or of the files if there is none. */
  digest: string;
}
