import * as z from "zod";

const Digest = z.string().regex(/^sha256:[0-9a-f]{64}$/, "must be sha256: and 64 hex digits");

const Descriptor = z.object({
  mediaType: z.string().default(""),
  digest: Digest,
  platform: z.object({ architecture: z.string(), os: z.string() }).optional(),
});
export type Descriptor = z.infer<typeof Descriptor>;

/** An OCI image index or Docker's manifest list: one manifest for each platform. */
export const Index = z.object({ manifests: z.array(Descriptor).min(1).max(1_000) });

/** The OCI image manifest, or Docker's version 2. Layers are not read. */
export const Manifest = z.object({ config: Descriptor });

const Strings = z.array(z.string()).nullish();

/** The OCI image configuration: the fields that start a container. */
export const Configuration = z.object({
  architecture: z.string().min(1),
  os: z.string(),
  config: z
    .object({
      Entrypoint: Strings,
      Cmd: Strings,
      Env: Strings,
      WorkingDir: z.string().nullish(),
      User: z.string().nullish(),
    })
    .nullish(),
});

export const indexTypes = [
  "application/vnd.oci.image.index.v1+json",
  "application/vnd.docker.distribution.manifest.list.v2+json",
] as const;

export const manifestTypes = [
  "application/vnd.oci.image.manifest.v1+json",
  "application/vnd.docker.distribution.manifest.v2+json",
] as const;
