import { mkdir, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
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

export interface ImageRecipe {
  /** The name of the image. */
  name: string;
  /** The build's directory in the cache. */
  directory: string;
  /** The file of the image with the digest of its recipe. */
  recipeFile: string;
  /** The digest of what it is built from. */
  recipe: string;
}

/** Returns the image, or builds it if it is missing or its recipe has changed. One process builds at a time; the others wait for it. */
export async function buildOnce(
  recipe: ImageRecipe,
  options: BuildOptions,
  build: (parts: ImageBuild) => Promise<Image>,
): Promise<Image> {
  const { signal, clock = systemClock, progress = (): void => undefined } = options;
  const { store = openImageStore({ dir: imagesDirectory(), clock, progress }) } = options;
  const { name, directory } = recipe;
  const known = await builtFrom(store, recipe);
  if (known !== undefined) return known;
  const line = progressLine(`image ${name}`, progress, clock);
  const work = join(cacheDirectory(), directory);
  await mkdir(work, { recursive: true });
  const onWait = (pid: number): void => {
    line.doing(`waiting for process ${pid}, which is building it`);
  };
  try {
    return await withLock(join(work, "lock"), { clock, onWait, signal }, async () => {
      const meanwhile = await builtFrom(store, recipe);
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

/** The image, if it was built from this recipe. One that a user has added under this name is kept. */
async function builtFrom(store: ImageStore, wanted: ImageRecipe): Promise<Image | undefined> {
  const image = await store.find(wanted.name);
  if (image === undefined) return undefined;
  const built = await readFile(join(image.rootPath, wanted.recipeFile), "utf8").catch(() => undefined);
  return built === undefined || built.trim() === wanted.recipe ? image : undefined;
}

async function removeInterrupted(work: string): Promise<void> {
  for (const entry of await readdir(work)) {
    if (entry.startsWith("making-")) await rm(join(work, entry), { recursive: true, force: true });
  }
}
