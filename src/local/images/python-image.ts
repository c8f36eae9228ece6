import { mkdir, mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { RametError } from "../../api/errors.ts";
import { systemClock, type Clock } from "../../kube/clock.ts";
import { cacheFolder } from "../tools/cache-folder.ts";
import { withLock } from "../tools/lock.ts";
import { progressLine, type ProgressLine } from "../tools/progress.ts";
import { runProgram } from "../tools/run-program.ts";
import { openImageStore, type ImageStore } from "./image-store.ts";
import type { Image } from "./image.ts";
import { findMmdebstrap } from "./mmdebstrap.ts";

export interface PythonImageOptions {
  /** Where the image goes. @default the one in Ramet's cache folder */
  store?: ImageStore;
  /** Ramet's cache folder. */
  cacheDir?: string;
  progress?: (line: string) => void;
  clock?: Clock;
  signal?: AbortSignal;
}

/** The name of the demo's image. */
export const pythonImageName = "python";

/** Ramet's own images folder in its cache folder. */
export function imagesFolder(cacheDir: string = cacheFolder()): string {
  return join(cacheDir, "images");
}

/**
 * Makes sure that the image `python` is there, and returns it: a small Debian with Python 3, made once with `mmdebstrap`
 * from the package archive that this machine's apt uses (about a minute).
 *
 * @throws RametError `ImageNotFound` with what to do where that is not possible.
 */
export async function ensurePythonImage(options: PythonImageOptions = {}): Promise<Image> {
  const { progress, signal, cacheDir = cacheFolder(), clock = systemClock } = options;
  const write = progress ?? ((): void => undefined);
  const store = options.store ?? openImageStore({ dir: imagesFolder(cacheDir), clock, progress: write });
  const there = await store.find(pythonImageName);
  if (there !== undefined) return there;
  const line = progressLine("image python", write, clock);
  const work = join(cacheDir, "debian");
  await mkdir(work, { recursive: true });
  const onWait = (pid: number): void => {
    line.doing(`waiting for process ${pid}, which is making it`);
  };
  try {
    return await withLock(join(work, "lock"), { clock, onWait, ...(signal && { signal }) }, async () => {
      const meanwhile = await store.find(pythonImageName);
      if (meanwhile !== undefined) return meanwhile;
      const image = await make(store, work, line, signal);
      line.done("made");
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
  const folder = await mkdtemp(join(work, "making-"));
  try {
    const tar = join(folder, "python.tar");
    await debootstrap(tar, work, line, signal);
    return await store.add(pythonImageName, tar, {
      config: {
        cmd: ["python3"],
        env: ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8"],
      },
      ...(signal && { signal }),
    });
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function debootstrap(tar: string, work: string, line: ProgressLine, signal?: AbortSignal): Promise<void> {
  try {
    const [program, ...before] = await findMmdebstrap(work, line, signal);
    const sources = await archiveSources();
    line.doing("making a Debian root filesystem with Python 3, once (about 70 s)");
    await runProgram(program, [...before, ...mmdebstrapArguments, suite, tar, ...sources], {
      what: "mmdebstrap",
      environment: { TMPDIR: work, LC_ALL: "C.UTF-8" },
      ...(signal && { signal }),
    });
  } catch (cause) {
    signal?.throwIfAborted();
    throw new RametError("ImageNotFound", `Making the image python failed: ${RametError.from(cause).message}`, {
      hint:
        "Install mmdebstrap and let apt reach a Debian archive, or give any root filesystem that has python3: " +
        "ramet local image add python PATH (a root folder, a tar or an OCI layout)",
      cause,
    });
  }
}

const suite = "bookworm";

const mmdebstrapArguments = [
  "--quiet",
  "--variant=minbase",
  "--include=python3",
  // A tar, because an ordinary user's mmdebstrap cannot leave a folder that is the user's own.
  "--format=tar",
  // Everything that only people read, which is half of it.
  "--dpkgopt=path-exclude=/usr/share/man/*",
  "--dpkgopt=path-exclude=/usr/share/doc/*",
  "--dpkgopt=path-include=/usr/share/doc/*/copyright",
  "--dpkgopt=path-exclude=/usr/share/locale/*",
  '--customize-hook=chroot "$1" python3 -c "import http.server, json, socket"',
];

/** The machine's own list of archives, so that a mirror that is set up is used; else mmdebstrap's default. */
async function archiveSources(): Promise<string[]> {
  const candidates = ["/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"];
  for (const path of candidates) {
    const size = await stat(path).then(
      (found) => found.size,
      () => 0,
    );
    if (size > 0) return [path];
  }
  return [];
}
