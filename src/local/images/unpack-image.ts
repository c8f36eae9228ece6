import { createHash, type Hash } from "node:crypto";
import { createReadStream } from "node:fs";
import { lstat, mkdir, open, readdir, readFile, readlink, rename, rm, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { createGunzip, createZstdDecompress } from "node:zlib";
import { RametError } from "../../base/errors.ts";
import { exists } from "../files.ts";
import { ImageConfig, isOciLayout, through, unpackOciLayout } from "./oci-layout.ts";
import { copyDirectory, isRoot, unpackTar } from "./unpack-tar.ts";

export interface UnpackedImage {
  /** The root filesystem, below the staging directory. */
  root: string;
  config: ImageConfig;
  /** The image's digest. */
  digest: string;
  /** The digest of the files. */
  content: string;
}

export interface UnpackOptions {
  write: (line: string) => void;
  signal?: AbortSignal | undefined;
}

/** Unpacks a root directory, a tar of one, or an OCI layout into `staging`. The caller removes that directory. */
export async function unpackImage(path: string, staging: string, options: UnpackOptions): Promise<UnpackedImage> {
  const { signal, write } = options;
  const root = join(staging, "root");
  await mkdir(root, { mode: 0o755 });
  const layout = await fill(path, root, staging, signal);
  if (!isRoot()) write("You are now the owner of all files of the image: only root can keep their owners");
  const scratch = join(staging, "layer");
  const oci = layout === undefined ? undefined : await unpackOciLayout(layout, root, scratch, signal);
  if ((await readdir(root)).length === 0) {
    throw new RametError("InvalidArgument", `Unpacking the image at ${path} failed: the image is empty`);
  }
  const content = await treeDigest(root, signal);
  return { root, content, digest: oci?.digest ?? content, config: oci?.config ?? ImageConfig.parse({}) };
}

/** Writes the files to `root`. For an OCI layout, leaves `root` empty and returns the layout's directory. */
async function fill(path: string, root: string, staging: string, signal?: AbortSignal): Promise<string | undefined> {
  const found = await stat(path).catch((cause: unknown) => {
    throw new RametError("NotFound", `Reading the image at ${path} failed: no such file or directory`, { cause });
  });
  if (found.isDirectory()) {
    if (await isOciLayout(path)) return path;
    await requireNoSource(path);
    await copyDirectory(path, root, signal);
    return undefined;
  }
  await unpackTar(await decompressed(path), root, signal);
  if (!(await isOciLayout(root))) return undefined;
  const layout = join(staging, "layout");
  await rm(layout, { recursive: true, force: true });
  await rename(root, layout);
  await mkdir(root, { mode: 0o755 });
  return layout;
}

/** The directory from which an image is built has its files, but is none. */
async function requireNoSource(path: string): Promise<void> {
  if (!(await exists(join(path, "Dockerfile"))) || (await exists(join(path, "usr")))) return;
  throw new RametError("InvalidArgument", `${path} is the source of an image and not its root file system`, {
    hint:
      basename(path) === "code-interpreter"
        ? "Build it with: ramet local image build code-interpreter"
        : "Build the Dockerfile first, for example with: docker buildx build --output type=oci,dest=image.tar PATH",
  });
}

/** Decompresses Gzip and Zstandard, recognized by their first bytes. Other files are passed to tar unchanged. */
async function decompressed(path: string): Promise<NodeJS.ReadableStream> {
  const file = await open(path, "r");
  const { buffer } = await file.read(Buffer.alloc(4), 0, 4, 0);
  await file.close();
  const raw = createReadStream(path);
  if (buffer.readUInt16BE() === 0x1f8b) return through(raw, createGunzip());
  if (buffer.readUInt32LE() === 0xfd2fb528) return through(raw, createZstdDecompress());
  return raw;
}

/** `sha256:` digest of a tree's names, file types, modes, owners and contents, without times. */
async function treeDigest(root: string, signal?: AbortSignal): Promise<string> {
  const hash = createHash("sha256");
  await addDirectory(hash, root, "", signal);
  return `sha256:${hash.digest("hex")}`;
}

const readWholeBytes = 1 << 20;

async function addDirectory(
  hash: Hash,
  root: string,
  directory: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  signal?.throwIfAborted();
  const names = (await readdir(join(root, directory))).sort();
  for (const name of names) {
    const relative = `${directory}/${name}`;
    const path = join(root, relative);
    const found = await lstat(path);
    hash.update(`${relative}\0${found.mode.toString(8)}\0${found.uid}:${found.gid}\0`);
    if (found.isDirectory()) await addDirectory(hash, root, relative, signal);
    else if (found.isSymbolicLink()) hash.update(`${await readlink(path)}\0`);
    else if (found.isFile()) {
      hash.update(`${found.size}\0`);
      if (found.size <= readWholeBytes) hash.update(await readFile(path));
      else for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
    }
  }
}
