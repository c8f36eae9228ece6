import { createHash } from "node:crypto";
import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { type Clock, systemClock } from "../../base/clock.ts";
import { RametError } from "../../base/errors.ts";
import { withLock } from "../tools/lock.ts";
import { type Image, ImageConfig } from "./image.ts";
import { unpackImage } from "./unpack-image.ts";

export interface ImageStoreOptions {
  /** The store's directory; made if it is not there. */
  dir: string;
  /** Gets a line for what takes long, and for what a person should know. */
  progress?: (line: string) => void;
  clock?: Clock;
}

export interface AddOptions {
  /** Stands in place of what the image says; a root directory and a tar of one say nothing. */
  config?: Partial<ImageConfig>;
  signal?: AbortSignal;
}

/** The images that the local node has, unpacked. */
export interface ImageStore {
  /**
   * Adds what is at `path` under a name, or puts it in place of what has the name: a root directory, a tar of one (plain or
   * compressed with gzip or zstd), or an OCI image layout (a directory or a tar). Sandboxes of the old one keep it.
   */
  add(name: string, path: string, options?: AddOptions): Promise<Image>;
  /** @throws RametError `ImageNotFound` */
  get(name: string): Promise<Image>;
  find(name: string): Promise<Image | undefined>;
  list(): Promise<Image[]>;
  /** Takes the name away. The files stay until `sweep`. @throws RametError `ImageNotFound` */
  remove(name: string): Promise<void>;
  /**
   * Keeps the files of an image for as long as the directory `user` exists, also when no name refers to them any more.
   * @throws RametError `ImageNotFound` if they have just been swept
   */
  hold(image: Pick<Image, "name" | "rootPath">, user: string): Promise<void>;
  /** Deletes the files that no name refers to and that nobody holds, and what killed runs left behind. */
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
    // An image may hold programs that are set-user-id, and here they may be root's: nobody else gets at them.
    await mkdir(dir, { recursive: true, mode: 0o700 });
    await mkdir(names, { recursive: true });
    await mkdir(roots, { recursive: true });
    const onWait = (pid: number): void => {
      write(`Waiting for process ${pid}, which works on the images`);
    };
    return withLock(join(dir, "lock"), { clock, onWait, ...(signal && { signal }) }, work);
  };

  const find: ImageStore["find"] = async (name) => {
    const text = await readFile(recordPath(name), "utf8").catch(absent);
    if (text === undefined) return undefined;
    const record = Record.parse(JSON.parse(text));
    return { ...record, rootPath: rootPath(record.content) };
  };

  const list: ImageStore["list"] = async () => {
    const files = (await readdir(names).catch(absent)) ?? [];
    const found = files
      .filter((file) => file.endsWith(".json"))
      .map((file) => find(decodeURIComponent(file.slice(0, -5))));
    return (await Promise.all(found)).filter((image) => image !== undefined);
  };

  const addLocked = async (name: string, path: string, { config, signal }: AddOptions): Promise<Image> => {
    await sweepStaging(dir);
    const staging = await mkdtemp(join(dir, "staging-"));
    try {
      write(`Image ${name}: unpacking ${path}`);
      const unpacked = await unpackImage(path, staging, { write, ...(signal && { signal }) });
      const target = rootPath(unpacked.content);
      if (!(await exists(target))) {
        const parcel = join(staging, "parcel");
        await mkdir(parcel);
        await rename(unpacked.root, join(parcel, "root"));
        // Gofers of sandboxes look into it as another user.
        await chmod(parcel, 0o755);
        await rename(parcel, join(target, ".."));
      }
      const record = { name: canonicalImageName(name), ...unpacked, config: { ...unpacked.config, ...config } };
      await writeRecord(recordPath(name), record);
      return { ...Record.parse(record), rootPath: target };
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

/** `content` names the directory of files: two images may have the same configuration's digest and yet differ in owners. */
const Record = z.object({ name: z.string(), digest: z.string(), content: z.string(), config: ImageConfig });

export function imageNotFound(name: string): RametError {
  return new RametError("ImageNotFound", `Getting the image ${name} failed: this machine does not have it`, {
    hint: `Add it with: ramet local image add ${name} PATH (a root directory, a tar or an OCI layout)`,
  });
}

function requireName(name: string): void {
  if (/^[a-z0-9][a-zA-Z0-9._:/@-]{0,199}$/.test(name)) return;
  throw new RametError(
    "InvalidArgument",
    `Adding an image failed: ${JSON.stringify(name)} is not a name for an image`,
    {
      hint: "Use lower-case letters, digits and . _ - / : @, as in registry.example/tools/python:3.12",
    },
  );
}

async function writeRecord(path: string, record: z.input<typeof Record>): Promise<void> {
  const temporary = `${path}.new`;
  await writeFile(temporary, JSON.stringify(Record.parse(record), undefined, 2));
  await rename(temporary, path);
}

/** Taken out of reach before its users are counted: who comes later finds that it is gone. */
async function sweepRoot(path: string, dir: string): Promise<void> {
  if (await isHeld(path)) return;
  const doomed = join(await mkdtemp(join(dir, "staging-")), "root");
  await rename(path, doomed);
  if (await isHeld(doomed)) await rename(doomed, path);
  await rm(join(doomed, ".."), { recursive: true, force: true });
}

/** Drops the links of directories that are gone, and says whether one is left. */
async function isHeld(path: string): Promise<boolean> {
  const users = join(path, "users");
  let held = false;
  for (const link of (await readdir(users).catch(absent)) ?? []) {
    if (await exists(join(users, link))) held = true;
    else await rm(join(users, link), { force: true });
  }
  return held;
}

function unless(code: string, gone: RametError): (error: unknown) => void {
  return (error) => {
    const found = (error as NodeJS.ErrnoException).code;
    if (found !== code) throw found === "ENOENT" ? gone : error;
  };
}

async function sweepStaging(dir: string): Promise<void> {
  for (const entry of await readdir(dir)) {
    if (entry.startsWith("staging-")) await rm(join(dir, entry), { recursive: true, force: true });
  }
}

function absent(error: unknown): undefined {
  if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
}

async function exists(path: string): Promise<boolean> {
  return (await stat(path).catch(absent)) !== undefined;
}

/**
 * One spelling for the names that mean the same image, by the rules of container registries: `python`, `python:latest`
 * and `docker.io/library/python` are one.
 */
function canonicalImageName(name: string): string {
  return name
    .trim()
    .replace(/^docker\.io\//, "")
    .replace(/^library\//, "")
    .replace(/:latest$/, "");
}
