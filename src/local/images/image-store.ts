import { createHash } from "node:crypto";
import { chmod, mkdir, mkdtemp, readdir, rename, rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { type Clock, systemClock } from "../../base/clock.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import { exists, readIfExists, replaceFile, unlessMissing } from "../files.ts";
import { findOnPath } from "../tools/find-installed.ts";
import { withLock } from "../tools/lock.ts";
import { runProgram } from "../tools/run-program.ts";
import { ImageConfig } from "./oci-layout.ts";
import { unpackImage } from "./unpack-image.ts";

export interface ImageStoreOptions {
  /** The store's directory. Created if missing. */
  dir: string;
  /** Receives progress and warning lines. */
  progress?: ((line: string) => void) | undefined;
  clock?: Clock;
}

export interface AddOptions {
  /** Overrides fields of the image's configuration. A root directory and a tar of one have none. */
  config?: Partial<ImageConfig>;
  signal?: AbortSignal | undefined;
}

/** The unpacked images of the local node. */
export interface ImageStore {
  /**
   * Adds the image at `path`, or replaces the image of that name. `path` is a root directory, a tar of one (plain, gzip or
   * zstd), or an OCI image layout (a directory or a tar). Existing sandboxes keep the old image.
   */
  add(name: string, path: string, options?: AddOptions): Promise<Image>;
  /** @throws RametError `ImageNotFound` */
  get(name: string): Promise<Image>;
  find(name: string): Promise<Image | undefined>;
  list(): Promise<Image[]>;
  /** Gives the image a further name, with the same files and configuration. @throws RametError `ImageNotFound` */
  tag(name: string, further: string): Promise<Image>;
  /** Removes the name. `sweep` removes the files. @throws RametError `ImageNotFound` */
  remove(name: string): Promise<void>;
  /**
   * Keeps the files of an image while the directory `user` exists, even if no name refers to them.
   * @throws RametError `ImageNotFound` if they have just been swept
   */
  hold(image: Pick<Image, "name" | "rootPath">, user: string): Promise<void>;
  /** Removes files without a name or a holder, and files of interrupted runs. */
  sweep(): Promise<void>;
}

/**
 * ```
 * <dir>/names/<name, percent-encoded>.json     what a name refers to
 * <dir>/roots/<hash>/root                      unpacked root filesystems, immutable
 * <dir>/roots/<hash>/users/                    a link for each directory whose owner uses it
 * <dir>/staging-*                              being unpacked; swept
 * ```
 */
export function openImageStore({ dir, progress, clock = systemClock }: ImageStoreOptions): ImageStore {
  const names = join(dir, "names");
  const roots = join(dir, "roots");
  const recordPath = (name: string): string => join(names, `${encodeURIComponent(canonicalImageName(name))}.json`);
  const rootPath = (digest: string): string => join(roots, digest.slice("sha256:".length), "root");
  const write = progress ?? ((): void => undefined);

  const locked = async <T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> => {
    // An image may contain set-user-id programs owned by root, so other users must not have access.
    await mkdir(dir, { recursive: true, mode: 0o700 });
    await mkdir(names, { recursive: true });
    await mkdir(roots, { recursive: true });
    const onWait = (pid: number): void => {
      write(`Waiting for process ${pid}, which is changing the images`);
    };
    return withLock(join(dir, "lock"), { clock, onWait, signal }, work);
  };

  const find: ImageStore["find"] = async (name) => {
    const text = await readIfExists(recordPath(name));
    if (text === undefined) return undefined;
    const record = Record.parse(JSON.parse(text));
    return { ...record, rootPath: rootPath(record.content) };
  };

  const list: ImageStore["list"] = async () => {
    const files = (await readdir(names).catch(unlessMissing)) ?? [];
    const found = files
      .filter((file) => file.endsWith(".json"))
      .map((file) => find(decodeURIComponent(file.slice(0, -5))));
    return (await Promise.all(found)).filter((image) => image !== undefined);
  };

  const put = async (name: string, image: Omit<z.input<typeof Record>, "name">): Promise<Image> => {
    const record = Record.parse({ ...image, name: canonicalImageName(name) });
    await replaceFile(recordPath(name), JSON.stringify(record, undefined, 2));
    return { ...record, rootPath: rootPath(record.content) };
  };

  const addLocked = async (name: string, path: string, { config, signal }: AddOptions): Promise<Image> => {
    await sweepStaging(dir);
    const staging = await mkdtemp(join(dir, "staging-"));
    try {
      write(`Image ${name}: unpacking ${path}`);
      const unpacked = await unpackImage(path, staging, { write, signal });
      const target = rootPath(unpacked.content);
      if (!(await exists(target))) {
        const parcel = join(staging, "parcel");
        await mkdir(parcel);
        await rename(unpacked.root, join(parcel, "root"));
        // gVisor's gofers read it as another user.
        await chmod(parcel, 0o755);
        await rename(parcel, join(target, ".."));
      }
      // The files of an image of this store are started as that image is.
      const source = (await list()).find(({ rootPath }) => rootPath === path);
      return await put(name, { ...unpacked, config: { ...(source ?? unpacked).config, ...config } });
    } finally {
      await rm(staging, { recursive: true, force: true });
    }
  };

  return {
    find,
    list,
    get: async (name) => {
      const image = await find(name);
      if (image === undefined) throw imageNotFound(name);
      return image;
    },
    add: async (name, path, options = {}) => {
      requireName(name);
      return locked(() => addLocked(name, path, options), options.signal);
    },
    tag: async (name, further) => {
      requireName(further);
      return locked(async () => {
        const text = await readIfExists(recordPath(name));
        if (text === undefined) throw imageNotFound(name);
        return put(further, Record.parse(JSON.parse(text)));
      });
    },
    remove: async (name) =>
      locked(async () => {
        if ((await find(name)) === undefined) throw imageNotFound(name);
        await rm(recordPath(name));
      }),
    hold: async ({ name, rootPath: held }, user) => {
      const users = join(held, "..", "users");
      const link = createHash("sha256").update(user).digest("hex").slice(0, 32);
      await mkdir(users).catch(unless("EEXIST", imageNotFound(name)));
      await symlink(user, join(users, link)).catch(unless("EEXIST", imageNotFound(name)));
    },
    sweep: async () =>
      locked(async () => {
        await sweepStaging(dir);
        const named = new Set((await list()).map((image) => image.rootPath));
        for (const entry of await readdir(roots)) {
          if (!named.has(join(roots, entry, "root"))) await sweepRoot(join(roots, entry), dir);
        }
      }),
  };
}

/** `content` names the directory of files: images with the same configuration digest may differ in owners. */
const Record = z.object({ name: z.string(), digest: z.string(), content: z.string(), config: ImageConfig });

export function imageNotFound(name: string): RametError {
  return new RametError("ImageNotFound", `Getting the image ${name} failed: it is not on this machine`, {
    hint:
      builtHint(name) ?? `Add it with: ramet local image add ${name} PATH (a root directory, a tar or an OCI layout)`,
  });
}

/** The images that Ramet builds. In templates of other projects they have names like `registry.example/code-interpreter:v1`. */
const builtNames = ["code-interpreter-small", "code-interpreter"];

function builtHint(name: string): string | undefined {
  const built = builtNames.find((one) => name.includes(one));
  if (built === undefined) return undefined;
  const build = `ramet local image build ${built}`;
  return name === built
    ? `Build it with: ${build}`
    : `Build it with: ${build} && ramet local image tag ${built} ${name}`;
}

function requireName(name: string): void {
  if (/^[a-z0-9][a-zA-Z0-9._:/@-]{0,199}$/.test(name)) return;
  throw new RametError("InvalidArgument", `Adding an image failed: ${JSON.stringify(name)} is an invalid name`, {
    hint: "Use lower-case letters, digits and . _ - / : @, as in registry.example/tools/python:3.12",
  });
}

/** Moves the directory away before its users are counted, so that no user can be added meanwhile. */
async function sweepRoot(path: string, dir: string): Promise<void> {
  if (await isHeld(path)) return;
  const moved = join(await mkdtemp(join(dir, "staging-")), "root");
  await rename(path, moved);
  if (await isHeld(moved)) await rename(moved, path);
  await rm(join(moved, ".."), { recursive: true, force: true });
}

/** Removes links to deleted directories. Returns whether a link remains. */
async function isHeld(path: string): Promise<boolean> {
  const users = join(path, "users");
  let held = false;
  for (const link of (await readdir(users).catch(unlessMissing)) ?? []) {
    if (await exists(join(users, link))) held = true;
    else await rm(join(users, link), { force: true });
  }
  return held;
}

function unless(code: string, missing: RametError): (error: unknown) => void {
  return (error) => {
    const found = (error as NodeJS.ErrnoException).code;
    if (found !== code) throw found === "ENOENT" ? missing : error;
  };
}

async function sweepStaging(dir: string): Promise<void> {
  for (const entry of await readdir(dir)) {
    if (entry.startsWith("staging-")) await rm(join(dir, entry), { recursive: true, force: true });
  }
}

/**
 * Normalizes an image name as container registries do: `python`, `python:latest` and `docker.io/library/python` are the
 * same image.
 */
function canonicalImageName(name: string): string {
  return name
    .trim()
    .replace(/^docker\.io\//, "")
    .replace(/^library\//, "")
    .replace(/:latest$/, "");
}

/** An image unpacked on this machine. */
export interface Image {
  name: string;
  /** The unpacked root filesystem. Read-only by convention. */
  rootPath: string;
  config: ImageConfig;
  /** `sha256:` and 64 hex digits: the digest of the OCI configuration, or of the files if there is none. */
  digest: string;
}

export interface PullOptions {
  /** Directory for the download. */
  scratch: string;
  progress?: ((line: string) => void) | undefined;
  signal?: AbortSignal | undefined;
}

/**
 * Returns the image of that name from the store, or pulls it with `skopeo` if that is installed. (`umoci` is not needed: the
 * store unpacks OCI layouts.)
 *
 * @throws RametError `ImageNotFound` with the reason why it cannot be pulled
 */
export async function getOrPullImage(store: ImageStore, name: string, options: PullOptions): Promise<Image> {
  const known = await store.find(name);
  if (known !== undefined) return known;
  const { progress, signal } = options;
  const { code, message, hint } = imageNotFound(name);
  const failed = (why: string, cause?: unknown) =>
    new RametError(code, `${message}, and pulling it failed: ${why}`, defined({ hint, cause }));
  if ((await findOnPath("skopeo", process.env)) === undefined) throw failed("skopeo is not installed");
  const directory = await mkdtemp(join(options.scratch, "pull-"));
  try {
    progress?.(`Image ${name}: pulling with skopeo`);
    await runProgram("skopeo", ["copy", "--quiet", `docker://${name}`, `oci:${join(directory, "layout")}:latest`], {
      what: `Pulling ${name}`,
      signal,
    }).catch((error: unknown) => {
      signal?.throwIfAborted();
      throw failed(RametError.from(error).message, error);
    });
    return await store.add(name, join(directory, "layout"), { signal });
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
