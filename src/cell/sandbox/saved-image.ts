import { randomBytes } from "node:crypto";
import { existsSync, constants } from "node:fs";
import { lstat, mkdir, readFile, rm, writeFile, copyFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { resultOr } from "../../base/errors.ts";
import { pagesFile } from "../../store/manifest.ts";
import type { RootDirectory } from "./root-directories.ts";

/** The files of a checkpoint. */
interface SavedImage {
  imagePath: string;
  /** How many bytes of its pages are of the writable layer. 0 if unknown. */
  writtenBytes: number;
}

/** The memory image of a checkpoint. */
export interface SavedMemory extends SavedImage {
  /** Load pages in the background, after the restore has returned. */
  background: boolean;
}

/** The changed files of a checkpoint without memory. A tar is in the spec: gVisor unpacks it before the first process starts. */
export type SavedFiles = SavedImage | { tar: string };

/** How a checkpoint is written. */
export interface ImageWrites {
  /** `direct`: without the page cache, which the container's memory limit has no room for. */
  pages: "cached" | "direct";
  /** What the sandbox has on disk, which extends the time limit. */
  writtenBytes: number;
  /** Whether it shares blocks of the disk with the writable layer. */
  clones: boolean;
}

interface WrittenImage {
  /** The directory that the command names. */
  path: string;
  clonedBytes(): Promise<number>;
  /** Call it when the command has ended. */
  remove(): Promise<void>;
}

interface ReadImage {
  /** The directory that the command names. */
  path: string;
  /** Whether the gofer loads the memory. It is charged to the control group of the command. */
  byGofer: boolean;
}

/** The directory beside `runsc` with gVisor's side programs. */
export const sideProgramsName = "gvisor-bin";

/** gVisor's name for the program that Ramet's gofer replaces (runsc/gvisorbinaries). */
export const goferName = "checkpointgofer";

/** Fewer bytes are copied faster than the gofer starts. */
const leastBytes = 16 * 1024 ** 2;

export interface SavedImagesOptions {
  /** Ramet's gofer. Undefined where all files are copied. */
  gofer: string | undefined;
  /** For the options of the gofer. */
  directory: string;
  root: Pick<RootDirectory, "layer" | "upper">;
}

/**
 * The directories that gVisor's commands name for the files of a checkpoint: those with the files, or with options for Ramet's gofer
 * (native/gofer), which gVisor then starts. The gofer clones the pages of the writable layer, so that layer and checkpoint share
 * blocks of a disk whose file system can do that.
 */
export class SavedImages {
  readonly #gofer: string | undefined;
  readonly #directory: string;
  readonly #root: SavedImagesOptions["root"];
  #count = 0;

  constructor({ gofer, directory, root }: SavedImagesOptions) {
    this.#gofer = gofer;
    this.#directory = directory;
    this.#root = root;
  }

  /** Whether files in `imagePath` can share blocks with the writable layer, and it is worth it for so many bytes. */
  async canClone(imagePath: string, bytes: number): Promise<boolean> {
    if (bytes < leastBytes || this.#gofer === undefined || !existsSync(this.#gofer)) return false;
    // Not in the upper directory, which programs of the sandbox see.
    return canShareBlocks(this.#root.layer, imagePath);
  }

  async toWrite(imagePath: string, { clones }: Pick<ImageWrites, "clones">): Promise<WrittenImage> {
    if (!clones) return { path: imagePath, clonedBytes: () => Promise.resolve(0), remove: () => Promise.resolve() };
    const path = await this.#optionsFor(imagePath);
    return {
      path,
      clonedBytes: () => clonedBytesIn(path),
      remove: () => rm(path, { recursive: true, force: true }),
    };
  }

  async toRead({ imagePath, writtenBytes }: SavedImage): Promise<ReadImage> {
    const byGofer = (await this.canClone(imagePath, writtenBytes)) && (await hasOwnPages(imagePath));
    return { path: byGofer ? await this.#optionsFor(imagePath) : imagePath, byGofer };
  }

  /** Call it when the sandbox has ended. */
  async remove(): Promise<void> {
    await rm(this.#directory, { recursive: true, force: true });
  }

  async #optionsFor(imagePath: string): Promise<string> {
    const path = join(this.#directory, String(this.#count++));
    await mkdir(path, { recursive: true, mode: 0o700 });
    const options = { directory: imagePath, layer: this.#root.upper, report: join(path, reportName) };
    await writeFile(join(path, "gcs_opts.json"), JSON.stringify(options), { mode: 0o600 });
    return path;
  }
}

const reportName = "report.json";
const Report = z.object({ clonedBytes: z.int().min(0) });

/** 0 if the gofer has cloned nothing, or has not reported it. */
async function clonedBytesIn(path: string): Promise<number> {
  const text = await readFile(join(path, reportName), "utf8").catch(() => "{}");
  return resultOr(() => Report.parse(JSON.parse(text)).clonedBytes, 0);
}

/** The most metadata that is read for `memoryPagesIn`. */
const mostMetadataBytes = 64 * 1024 ** 2;

/**
 * How many bytes of the pages of a memory image are of the memory, which gVisor writes first. The others are of the writable layer and
 * of volumes with a file of their own (gVisor's pkg/sentry/pgalloc/save_restore.go). Undefined: gVisor has written it in another form.
 */
export async function memoryPagesIn(imagePath: string): Promise<number | undefined> {
  const read = async (): Promise<number | undefined> => {
    const [file, pages] = [join(imagePath, "pages_meta.img"), await lstat(join(imagePath, pagesFile))];
    if ((await lstat(file)).size > mostMetadataBytes) return undefined;
    const bytes = committedBytes(await readFile(file));
    return bytes <= pages.size ? bytes : undefined;
  };
  return read().catch(() => undefined);
}

/** The sum of the committed ranges of the first MemoryFileMetadataProto in a file, after its length. @throws RangeError */
function committedBytes(file: Buffer): number {
  const metadata = file.subarray(8, 8 + Number(file.readBigUInt64LE()));
  let sum = 0;
  for (const { field, value } of fieldsIn(metadata)) {
    if (field !== memoryRanges || typeof value === "number") continue;
    const range = new Map([...fieldsIn(value)].map((one) => [one.field, Number(one.value)]));
    if (range.get(committed) === 1) sum += (range.get(rangeEnd) ?? 0) - (range.get(rangeStart) ?? 0);
  }
  return sum;
}

const memoryRanges = 3;
const [rangeStart, rangeEnd, committed] = [1, 2, 5];

/** The fields of a message of Protocol Buffers that has only numbers and nested messages. @throws RangeError */
function* fieldsIn(message: Buffer): Generator<{ field: number; value: number | Buffer }> {
  let at = 0;
  const number = (): number => {
    let [value, scale] = [0, 1];
    for (;;) {
      const byte = message.readUInt8(at++);
      value += (byte % 128) * scale;
      scale *= 128;
      if (byte < 128) return value;
    }
  };
  while (at < message.length) {
    const tag = number();
    const [value, field] = [number(), Math.floor(tag / 8)];
    if (tag % 8 === 0) yield { field, value };
    else if (tag % 8 === 2 && at + value <= message.length) yield { field, value: message.subarray(at, (at += value)) };
    else throw new RangeError("unknown field");
  }
}

/** A store that is mounted read-only provides links to its files, which the gofer does not follow. */
async function hasOwnPages(imagePath: string): Promise<boolean> {
  const pages = await lstat(join(imagePath, pagesFile)).catch(() => undefined);
  return pages?.isFile() === true;
}

/**
 * Whether files in two directories can share blocks of a disk: both are in one file system that can clone, such as XFS or btrfs
 * (ioctl_ficlonerange(2)). Tries it with a file of one block.
 */
export async function canShareBlocks(from: string, to: string): Promise<boolean> {
  const name = `.clone-${randomBytes(6).toString("hex")}`;
  const [file, clone] = [join(from, name), join(to, `${name}.copy`)];
  try {
    await writeFile(file, Buffer.alloc(4096), { mode: 0o600, flag: "wx" });
    await copyFile(file, clone, constants.COPYFILE_FICLONE_FORCE | constants.COPYFILE_EXCL);
    return true;
  } catch {
    return false;
  } finally {
    await Promise.all([file, clone].map((path) => rm(path, { force: true }).catch(() => undefined)));
  }
}
