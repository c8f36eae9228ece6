import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { type Clock, systemClock } from "../../base/clock.ts";
import { withLock } from "../tools/lock.ts";
import { progressLine, type ProgressLine } from "../tools/progress.ts";
import { cacheDirectory } from "../tools/tool.ts";
import { type Image, openImageStore, type ImageStore } from "./image-store.ts";

export interface BuildOptions {
  /** The store of the image. @default the one in Ramet's cache directory */
  store?: ImageStore;
  progress?: ((line: string) => void) | undefined;
  clock?: Clock;
  signal?: AbortSignal | undefined;
}

/** The resources that a build can use. */
export interface ImageBuild {
  store: ImageStore;
  /** Kept between builds. */
  work: string;
  /** Removed after the build. */
  scratch: string;
  line: ProgressLine;
  signal?: AbortSignal | undefined;
}

/** The directory of images in Ramet's cache directory. */
export function imagesDirectory(): string {
  return join(cacheDirectory(), "images");
}

/**
 * Returns the image that `find` finds, or builds it. One process builds at a time; the others wait for it.
 *
 * @param name the name of the image, for progress lines
 * @param directory the build's directory in the cache
 */
export async function buildOnce(
  { name, directory }: { name: string; directory: string },
  options: BuildOptions,
  find: (store: ImageStore) => Promise<Image | undefined>,
  build: (parts: ImageBuild) => Promise<Image>,
): Promise<Image> {
  const { signal, clock = systemClock, progress = (): void => undefined } = options;
  const { store = openImageStore({ dir: imagesDirectory(), clock, progress }) } = options;
  const known = await find(store);
  if (known !== undefined) return known;
  const line = progressLine(`image ${name}`, progress, clock);
  const work = join(cacheDirectory(), directory);
  await mkdir(work, { recursive: true });
  const onWait = (pid: number): void => {
    line.doing(`waiting for process ${pid}, which is building it`);
  };
  try {
    return await withLock(join(work, "lock"), { clock, onWait, signal }, async () => {
      const meanwhile = await find(store);
      if (meanwhile !== undefined) return meanwhile;
      await removeInterrupted(work);
      const scratch = await mkdtemp(join(work, "making-"));
      try {
        const image = await build({ store, work, scratch, line, signal });
        line.done("built");
        return image;
      } finally {
        await rm(scratch, { recursive: true, force: true });
      }
    });
  } finally {
    line.stop();
  }
}

async function removeInterrupted(work: string): Promise<void> {
  for (const entry of await readdir(work)) {
    if (entry.startsWith("making-")) await rm(join(work, entry), { recursive: true, force: true });
  }
}
