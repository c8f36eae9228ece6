import { readFileSync } from "node:fs";
import { chmod, chown, mkdir, open, readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { RametError } from "../../base/errors.ts";
import { runProgram } from "../../base/run-program.ts";

/** The directory that becomes a sandbox's root. */
export interface RootDirectory {
  path: string;
  /** The directory of the writable layer. */
  layer: string;
  /** The directory with gVisor's file of the writable layer, below the overlay. */
  upper: string;
  /** Hides what the sandbox has written from its other users. Call it when gVisor has created the file. */
  protect(): Promise<void>;
  /** The bytes on disk of the files that the sandbox has written. */
  writtenBytes(): Promise<number>;
  /** Writes to the disk what the page cache has of these files. */
  flush(): Promise<void>;
  /** Call it when the sandbox has ended. It throws nothing: the mounts of a killed cell end with its mount namespace. */
  remove(): Promise<void>;
}

export interface RootDirectoriesOptions {
  /** In which the roots are mounted. The kubelet counts its size, so that a Pod's limit of ephemeral storage applies. */
  directory: string;
  imagePath: string;
  /** The program `ramet-link`. */
  link: string;
  /** Keep what sandboxes write in memory. */
  inMemory: boolean;
}

/**
 * The root directories of one cell's sandboxes: each is an overlay over the template's image, so that sandboxes can share a
 * read-only image. gVisor creates its mount points in the upper layer, and one hidden file with everything that the sandbox
 * writes. Programs of another sandbox must not see that file, so each sandbox has a root of its own.
 */
export class RootDirectories {
  readonly #options: RootDirectoriesOptions;
  #next: Promise<RootDirectory> | undefined;
  #count = 0;

  constructor(options: RootDirectoriesOptions) {
    this.#options = options;
  }

  /** Mounts the next root before it is needed. @throws RametError `HostUnsupported` */
  async prepare(): Promise<void> {
    this.#next ??= this.#mount();
    await this.#next;
  }

  /**
   * @param layers directories between the image and the writable layer, in their order
   * @throws RametError `HostUnsupported`
   */
  take(layers: readonly string[] = []): Promise<RootDirectory> {
    if (layers.length > 0) return this.#mount(layers);
    const taken = this.#next ?? this.#mount();
    this.#next = undefined;
    return taken;
  }

  /**
   * Gives a created sandbox another root, with these layers. gVisor opens the root when the sandbox starts or is restored. What the
   * sandbox writes stays in the writable layer of the first one. After an error the sandbox must not start.
   * @throws RametError `HostUnsupported`, also where the cell has no right to change the gofer's mounts
   */
  async replace(root: RootDirectory, layers: readonly string[]): Promise<RootDirectory> {
    const next = await this.take(layers);
    try {
      await replaceRoot(this.#options.link, [root.path, next.path]);
    } catch (error) {
      await next.remove();
      throw error;
    }
    const remove = async (): Promise<void> => {
      await Promise.all([next.remove(), root.remove()]);
    };
    return { ...root, path: next.path, remove };
  }

  /** Removes a root that was not taken. */
  async remove(): Promise<void> {
    const left = await this.#next?.catch(() => undefined);
    this.#next = undefined;
    await left?.remove();
  }

  async #mount(layers: readonly string[] = []): Promise<RootDirectory> {
    const { directory, inMemory } = this.#options;
    const own = join(directory, String(this.#count++));
    const [layer, merged] = [join(own, "layer"), join(own, "merged")];
    const [upper, work] = [join(layer, "upper"), join(layer, "work")];
    await Promise.all([layer, merged].map((made) => mkdir(made, { recursive: true })));
    const remove = (): Promise<void> => removeMounts(own, [merged, ...(inMemory ? [layer] : [])]);
    try {
      if (inMemory) await mount(["-t", "tmpfs", "-o", "mode=0755", "ramet", layer]);
      await this.#mountOverlay({ upper, work, merged, layers });
    } catch (error) {
      await remove();
      throw error;
    }
    return {
      path: merged,
      layer,
      upper,
      protect: () => protectIn(merged),
      writtenBytes: () => writtenIn(upper),
      flush: () => flushIn(upper),
      remove,
    };
  }

  async #mountOverlay({ upper, work, merged, layers }: Overlay): Promise<void> {
    // The first one is the uppermost.
    const lower = [...layers.toReversed(), this.#options.imagePath].map(escaped).join(":");
    await Promise.all([upper, work].map((made) => mkdir(made, { recursive: true })));
    // The root of the sandbox has the owner and the mode of this directory, whatever the kubelet gave to the volume.
    await chown(upper, 0, 0);
    await chmod(upper, 0o755);
    const options = [`lowerdir=${lower}`, `upperdir=${escaped(upper)}`, `workdir=${escaped(work)}`];
    // In a user namespace overlayfs must keep its metadata in user attributes.
    if (hasOneUserOnly()) options.push("userxattr");
    await mount(["-t", "overlay", "-o", options.join(","), "ramet", merged]);
  }
}

interface Overlay {
  upper: string;
  work: string;
  merged: string;
  layers: readonly string[];
}

/** gVisor's name for the file of a writable layer (pkg/fsutil/fsutil.go). */
export const layerFile = ".gvisor.filestore.";

async function layerFilesIn(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { withFileTypes: true });
  // An image may have a link of this name, which leads elsewhere.
  return entries
    .filter((entry) => entry.name.startsWith(layerFile) && entry.isFile())
    .map(({ name }) => join(directory, name));
}

async function protectIn(merged: string): Promise<void> {
  await Promise.all((await layerFilesIn(merged)).map((file) => chmod(file, 0o600)));
}

async function writtenIn(upper: string): Promise<number> {
  const files = await Promise.all((await layerFilesIn(upper)).map((file) => stat(file)));
  return files.reduce((sum, { blocks }) => sum + blocks * 512, 0);
}

async function flushIn(upper: string): Promise<void> {
  for (const path of await layerFilesIn(upper)) {
    const file = await open(path);
    await file.datasync().finally(() => file.close());
  }
}

/** Removes the directory of a root only if nothing is mounted in it: the image is not to be walked. */
async function removeMounts(own: string, mounted: readonly string[]): Promise<void> {
  const options = { program: "umount", args: ["-l", ...mounted], timeoutMilliseconds: mountTimeoutMilliseconds };
  const isUnmounted = await runProgram(options).then(
    ({ code }) => code === 0,
    () => false,
  );
  if (isUnmounted) await rm(own, { recursive: true, force: true }).catch(() => undefined);
}

const mountTimeoutMilliseconds = 10_000;

async function mount(args: readonly string[]): Promise<void> {
  // Without that, util-linux 2.39 and newer pass each option to fsconfig(2), which takes at most 255 bytes: the paths of two layers have more.
  const environment = { LIBMOUNT_FORCE_MOUNT2: "always" };
  const timeoutMilliseconds = mountTimeoutMilliseconds;
  const { code, stderr } = await runProgram({ program: "mount", args, environment, timeoutMilliseconds });
  if (code === 0) return;
  throw new RametError("HostUnsupported", `mounting the sandbox's root failed: ${stderr.trim()}`, {
    hint: "Use kernel 5.11 or newer with overlayfs; in a Pod, also the SYS_ADMIN capability and no default AppArmor profile",
  });
}

async function replaceRoot(link: string, paths: readonly string[]): Promise<void> {
  const options = { program: link, args: ["root", ...paths], timeoutMilliseconds: mountTimeoutMilliseconds };
  const { code, stderr } = await runProgram(options);
  if (code === 0) return;
  throw new RametError("HostUnsupported", `replacing the root of a waiting sandbox failed: ${stderr.trim()}`);
}

/** Overlayfs separates directories by colons and options by commas. */
function escaped(path: string): string {
  return path.replace(/[\\:,]/g, "\\$&");
}

/**
 * Whether the cell runs in a user namespace with a single user, which `ramet-link pod` creates for an unprivileged user
 * (user_namespaces(7)). Every new file then belongs to that user on the host, and to root in the sandbox.
 */
export function hasOneUserOnly(): boolean {
  try {
    const extents = readFileSync("/proc/self/uid_map", "utf8").trim().split("\n");
    return extents.length === 1 && extents[0]?.trim().split(/\s+/)[2] === "1";
  } catch {
    return false;
  }
}
