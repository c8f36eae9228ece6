import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { RametError } from "../../base/errors.ts";
import { systemClock, type Clock } from "../../base/clock.ts";
import { cacheDirectory } from "../tools/tool.ts";
import { withLock } from "../tools/lock.ts";
import { progressLine, type ProgressLine } from "../tools/progress.ts";
import { makeDebianTar } from "./debian-tar.ts";
import { openImageStore, type ImageStore } from "./image-store.ts";
import type { Image } from "./image.ts";

export interface PythonImageOptions {
  /** The store of the image. @default the one in Ramet's cache directory */
  store?: ImageStore;
  /** Ramet's cache directory. */
  cacheDir?: string;
  progress?: (line: string) => void;
  clock?: Clock;
  signal?: AbortSignal;
}

/** The name of the demo's image. */
export const pythonImageName = "python";

/** The directory of images in Ramet's cache directory. */
export function imagesDirectory(cacheDir: string = cacheDirectory()): string {
  return join(cacheDir, "images");
}

/**
 * Returns the image `python`, a small Debian with Python 3. Builds it on first use with `mmdebstrap`, from the package
 * archive that this machine's apt uses (about a minute).
 *
 * @throws RametError `ImageNotFound` with instructions if it cannot be built
 */
export async function ensurePythonImage(options: PythonImageOptions = {}): Promise<Image> {
  const { progress, signal, cacheDir = cacheDirectory(), clock = systemClock } = options;
  const write = progress ?? ((): void => undefined);
  const store = options.store ?? openImageStore({ dir: imagesDirectory(cacheDir), clock, progress: write });
  const known = await store.find(pythonImageName);
  if (known !== undefined) return known;
  const line = progressLine("image python", write, clock);
  const work = join(cacheDir, "debian");
  await mkdir(work, { recursive: true });
  const onWait = (pid: number): void => {
    line.doing(`waiting for process ${pid}, which is building it`);
  };
  try {
    return await withLock(join(work, "lock"), { clock, onWait, ...(signal && { signal }) }, async () => {
      const meanwhile = await store.find(pythonImageName);
      if (meanwhile !== undefined) return meanwhile;
      const image = await make(store, work, line, signal);
      line.done("built");
      return image;
    });
  } finally {
    line.stop();
  }
}

async function make(store: ImageStore, work: string, line: ProgressLine, signal?: AbortSignal): Promise<Image> {
  for (const entry of await readdir(work)) {
    if (entry.startsWith("making-")) await rm(join(work, entry), { recursive: true, force: true });
  }
  const directory = await mkdtemp(join(work, "making-"));
  try {
    const tar = join(directory, "python.tar");
    await makeDebianTar({ path: tar, work, line, ...(signal && { signal }) }).catch((error: unknown) => {
      signal?.throwIfAborted();
      throw buildFailed(error);
    });
    return await store.add(pythonImageName, tar, {
      config: {
        cmd: ["python3"],
        env: ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"],
      },
      ...(signal && { signal }),
    });
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

function buildFailed(cause: unknown): RametError {
  return new RametError("ImageNotFound", `Building the image python failed: ${RametError.from(cause).message}`, {
    hint:
      "Install mmdebstrap and configure apt with a Debian archive, or add any root filesystem with python3: " +
      "ramet local image add python PATH (a root directory, a tar or an OCI layout)",
    cause,
  });
}
