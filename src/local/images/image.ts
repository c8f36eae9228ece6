import * as z from "zod";

/** What an image says about how it is started: the OCI image configuration's own fields, in Kubernetes' spelling. */
export const ImageConfig = z.object({
  entrypoint: z.array(z.string()).default([]),
  cmd: z.array(z.string()).default([]),
  /** `NAME=value`, as in the image. */
  env: z.array(z.string()).default([]),
  workingDir: z.string().default("/"),
  /** As in the image: a name or number, with or without `:group`; empty means root. */
  user: z.string().default(""),
});
export type ImageConfig = z.infer<typeof ImageConfig>;

/** An image that is unpacked on this machine. */
export interface Image {
  name: string;
  /** The unpacked root filesystem. Nobody may write to it. */
  rootPath: string;
  config: ImageConfig;
  /** `sha256:` and 64 hex digits: the OCI configuration's digest where there is one, else a hash of the files. */
  digest: string;
}
