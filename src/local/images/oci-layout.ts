import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { chmod, chown, lstat, mkdir, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { type Readable, Transform } from "node:stream";
import { createGunzip, createZstdDecompress } from "node:zlib";
import * as z from "zod";
import { goArchitecture } from "../../base/machine.ts";
import { directoryInside } from "../../cell/setting/image-user.ts";
import { RametError } from "../../base/errors.ts";
import { exists } from "../files.ts";
import { isRoot, unpackTar } from "./unpack-tar.ts";

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

/** Whether a directory is an OCI image layout (image-spec, image-layout.md). */
export async function isOciLayout(directory: string): Promise<boolean> {
  return exists(join(directory, "oci-layout"));
}

/**
 * Unpacks the image of a layout into `root`, an empty directory. Each layer is verified by its digest and unpacked into
 * `scratch`, then merged into `root`. Both directories must be in the same file system.
 */
export async function unpackOciLayout(
  layout: string,
  root: string,
  scratch: string,
  signal?: AbortSignal,
): Promise<{ config: ImageConfig; digest: string }> {
  const index = Index.parse(JSON.parse(await readFile(join(layout, "index.json"), "utf8")));
  const manifest = Manifest.parse(await readJson(layout, await chooseManifest(layout, index)));
  const { config } = Config.parse(await readJson(layout, manifest.config));
  for (const layer of manifest.layers) {
    await rm(scratch, { recursive: true, force: true });
    await mkdir(scratch, { mode: 0o755 });
    await unpackLayer(layout, layer, scratch, signal);
    await mergeDirectory(scratch, root, root);
  }
  return {
    digest: manifest.config.digest,
    config: {
      entrypoint: config.Entrypoint ?? [],
      cmd: config.Cmd ?? [],
      env: config.Env ?? [],
      workingDir: config.WorkingDir === undefined || config.WorkingDir === "" ? "/" : config.WorkingDir,
      user: config.User ?? "",
    },
  };
}

const Descriptor = z.object({
  mediaType: z.string().default(""),
  digest: z.string().regex(/^sha256:[0-9a-f]{64}$/, "must be sha256: and 64 hex digits"),
  platform: z.object({ architecture: z.string(), os: z.string() }).optional(),
});
type Descriptor = z.infer<typeof Descriptor>;
const Index = z.object({ manifests: z.array(Descriptor).min(1) });
type Index = z.infer<typeof Index>;
const Manifest = z.object({ config: Descriptor, layers: z.array(Descriptor) });
const Config = z.object({
  config: z
    .object({
      Entrypoint: z.array(z.string()).nullish(),
      Cmd: z.array(z.string()).nullish(),
      Env: z.array(z.string()).nullish(),
      WorkingDir: z.string().optional(),
      User: z.string().optional(),
    })
    .default({}),
});

/** The manifest for this machine's architecture. An index may contain an index. */
async function chooseManifest(layout: string, index: Index): Promise<Descriptor> {
  const fits = ({ platform }: Descriptor): boolean =>
    platform === undefined || (platform.os === "linux" && platform.architecture === goArchitecture);
  const chosen = index.manifests.find(fits);
  if (chosen === undefined) {
    throw new RametError(
      "InvalidArgument",
      `Reading the image failed: it has no manifest for linux/${goArchitecture}`,
      {
        hint: "Copy the image for this architecture, for example with skopeo's --override-arch",
      },
    );
  }
  const isIndex = /image\.index|manifest\.list/.test(chosen.mediaType);
  return isIndex ? chooseManifest(layout, Index.parse(await readJson(layout, chosen))) : chosen;
}

function blobPath(layout: string, { digest }: Descriptor): string {
  return join(layout, "blobs", "sha256", digest.slice("sha256:".length));
}

async function readJson(layout: string, descriptor: Descriptor): Promise<unknown> {
  const content = await readFile(blobPath(layout, descriptor));
  requireDigest(createHash("sha256").update(content).digest("hex"), descriptor);
  return JSON.parse(content.toString());
}

async function unpackLayer(layout: string, layer: Descriptor, directory: string, signal?: AbortSignal): Promise<void> {
  const hash = createHash("sha256");
  const hashed = new Transform({
    transform: (chunk: Buffer, _encoding, done) => {
      hash.update(chunk);
      done(null, chunk);
    },
  });
  const compressed = through(createReadStream(blobPath(layout, layer)), hashed);
  const format = decompressors.find(([ending]) => layer.mediaType.endsWith(ending));
  await unpackTar(format === undefined ? compressed : through(compressed, format[1]()), directory, signal);
  requireDigest(hash.digest("hex"), layer);
}

const decompressors = [
  ["gzip", createGunzip],
  ["zstd", createZstdDecompress],
] as const;

/** Pipes a stream through another one, which also ends with its errors. */
export function through(input: Readable, output: Transform): Transform {
  input.on("error", (error) => output.destroy(error));
  return input.pipe(output);
}

function requireDigest(actual: string, { digest }: Descriptor): void {
  if (digest === `sha256:${actual}`) return;
  const why = `the content of blob ${digest} does not match its digest`;
  throw new RametError("InvalidArgument", `Reading the image failed: ${why}`, { hint: "Copy the image again" });
}

/**
 * Merges an unpacked layer into the root of the layers below it, as OCI's image-spec requires (layer.md): `.wh.NAME` removes
 * NAME, `.wh..wh..opq` empties its directory, directories are merged, and any other entry replaces the existing one. A
 * symbolic link to a directory is kept: a layer's `lib/x` is written to the link's target, but never outside the root.
 */
async function mergeDirectory(layer: string, target: string, root: string): Promise<void> {
  const names = await readdir(layer);
  if (names.includes(opaque)) await empty(target);
  for (const name of names.filter((each) => each.startsWith(whiteout) && each !== opaque)) {
    await rm(join(target, hiddenName(name)), { recursive: true, force: true });
  }
  for (const name of names.filter((each) => !each.startsWith(whiteout))) {
    await mergeEntry(join(layer, name), join(target, name), root);
  }
}

async function mergeEntry(source: string, target: string, root: string): Promise<void> {
  const added = await lstat(source);
  const existing = await lstat(target).catch(() => undefined);
  if (!added.isDirectory()) {
    if (existing !== undefined) await rm(target, { recursive: true });
    await rename(source, target);
    return;
  }
  const linked = existing?.isSymbolicLink() === true ? await directoryInside(root, target) : undefined;
  if (linked !== undefined) {
    await mergeDirectory(source, linked, root);
    return;
  }
  if (existing?.isDirectory() !== true) {
    if (existing !== undefined) await rm(target);
    await mkdir(target);
  }
  await mergeDirectory(source, target, root);
  if (isRoot()) await chown(target, added.uid, added.gid);
  await chmod(target, added.mode & 0o7777);
}

const opaque = ".wh..wh..opq";
const whiteout = ".wh.";

function hiddenName(name: string): string {
  const hidden = name.slice(whiteout.length);
  if (hidden !== "" && hidden !== "." && hidden !== "..") return hidden;
  throw new RametError("InvalidArgument", `Reading the image failed: a layer has the invalid whiteout ${name}`);
}

async function empty(directory: string): Promise<void> {
  for (const name of await readdir(directory)) await rm(join(directory, name), { recursive: true });
}
