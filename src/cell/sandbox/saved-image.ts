import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { canShareBlocks } from "../../base/shared-blocks.ts";

/** The files of a checkpoint. */
interface SavedImage {
  imagePath: string;
  /** @see Manifest.clonedBytes */
  clonedBytes: number;
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
  clonedBytes: () => Promise<number>;
}

/** Fewer bytes are copied faster than the gofer starts. */
const leastBytes = 16 * 1024 ** 2;

/**
 * The directories that gVisor's commands name for the files of a checkpoint: those with the files, or with options for Ramet's gofer
 * (native/gofer), which gVisor then starts. The gofer clones the pages of the writable layer, so that layer and checkpoint share
 * blocks of a disk whose file system can do that.
 */
export class SavedImages {
  readonly #gofer: string | undefined;
  readonly #directory: string;
  readonly #layer: string;
  #count = 0;

  /**
   * @param options.gofer the program. Undefined where all files are copied
   * @param options.directory for the options of the gofer
   * @param options.layer the directory with gVisor's file of the writable layer, below the overlay
   */
  constructor(options: { gofer: string | undefined; directory: string; layer: string }) {
    this.#gofer = options.gofer;
    this.#directory = options.directory;
    this.#layer = options.layer;
  }

  /** Whether files in `imagePath` can share blocks with the writable layer, and it is worth it for so many bytes. */
  async canClone(imagePath: string, bytes: number): Promise<boolean> {
    if (bytes < leastBytes || this.#gofer === undefined || !existsSync(this.#gofer)) return false;
    return canShareBlocks(this.#layer, imagePath);
  }

  async toWrite(imagePath: string, { clones }: Pick<ImageWrites, "clones">): Promise<WrittenImage> {
    if (!clones) return { path: imagePath, clonedBytes: () => Promise.resolve(0) };
    const path = await this.#optionsFor(imagePath);
    return { path, clonedBytes: () => clonedBytesIn(path) };
  }

  async toRead({ imagePath, clonedBytes }: SavedImage): Promise<string> {
    return (await this.canClone(imagePath, clonedBytes)) ? this.#optionsFor(imagePath) : imagePath;
  }

  async #optionsFor(imagePath: string): Promise<string> {
    const path = join(this.#directory, String(this.#count++));
    await mkdir(path, { recursive: true, mode: 0o700 });
    const options = { directory: imagePath, layer: this.#layer, report: join(path, reportName) };
    await writeFile(join(path, "gcs_opts.json"), JSON.stringify(options), { mode: 0o600 });
    return path;
  }
}

const reportName = "report.json";
const Report = z.object({ clonedBytes: z.int().min(0) });

/** 0 if the gofer has cloned nothing. */
async function clonedBytesIn(path: string): Promise<number> {
  const text = await readFile(join(path, reportName), "utf8").catch(() => `{"clonedBytes": 0}`);
  return Report.parse(JSON.parse(text)).clonedBytes;
}
