import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, statfs, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const sizeBytes = 768 * 2 ** 20;

/**
 * A small disk for the store that can be full, read-only, frozen or broken: ext4 on a loop device, in a file on a tmpfs. If the
 * tmpfs is full, the device loses writes to new blocks, which the kernel logs as I/O errors.
 */
export class StoreDisk {
  readonly #backing: string;
  readonly #path: string;

  private constructor(backing: string, path: string) {
    this.#backing = backing;
    this.#path = path;
  }

  /** Undefined for an ordinary user, who cannot mount. */
  static async mountAt(path: string): Promise<StoreDisk | undefined> {
    if (process.getuid?.() !== 0) return undefined;
    const disk = new StoreDisk(await mkdtemp(join(tmpdir(), "ramet-disk-")), path);
    const image = disk.#image;
    await run("mount", ["-t", "tmpfs", "-o", `size=${sizeBytes},mode=700`, "ramet-test", disk.#backing]);
    try {
      await writeFile(image, "");
      await truncate(image, sizeBytes);
      // Without a journal, the file system survives an I/O error, and only what was being written is lost.
      await run("mkfs.ext4", [
        "-q",
        "-F",
        "-O",
        "^has_journal",
        "-E",
        "lazy_itable_init=0,nodiscard",
        "-m",
        "0",
        image,
      ]);
      await mkdir(path, { recursive: true, mode: 0o700 });
      await run("mount", ["-o", "loop,discard,errors=continue", image, path]);
      await rm(join(path, "lost+found"), { recursive: true });
      await mkdir(disk.#second);
      await run("mount", ["--bind", path, disk.#second]);
    } catch (error) {
      await disk.unmount();
      throw error;
    }
    return disk;
  }

  /** Uses all free space. */
  async fill(): Promise<() => Promise<void>> {
    const filler = join(this.#path, "filler");
    const { bavail, bsize } = await statfs(this.#path);
    await run("fallocate", ["--length", `${Math.max(1, bavail) * bsize}`, filler]).catch(() => undefined);
    return () => rm(filler, { force: true });
  }

  /**
   * As after an error, the file system becomes read-only. The same command for the store's own mount would set a flag of that mount
   * too, which a cell that starts meanwhile copies into its mount namespace and then keeps.
   * @throws Error while a file is being written
   */
  async makeReadOnly(): Promise<() => Promise<void>> {
    await run("mount", ["-o", "remount,ro", this.#second]);
    return async () => {
      await run("mount", ["-o", "remount,rw", this.#second]);
    };
  }

  /** Accepts writes to new blocks, and loses them: the next fsync fails. */
  async break(): Promise<() => Promise<void>> {
    const filler = join(this.#backing, "filler");
    const { bavail, bsize } = await statfs(this.#backing);
    await run("fallocate", ["--length", `${bavail * bsize}`, filler]).catch(() => undefined);
    return () => rm(filler, { force: true });
  }

  /** Every write waits. */
  async freeze(): Promise<() => Promise<void>> {
    await run("fsfreeze", ["--freeze", this.#path]);
    return async () => {
      await run("fsfreeze", ["--unfreeze", this.#path]);
    };
  }

  async unmount(): Promise<void> {
    // A frozen file system stays in the kernel without a mount.
    await run("fsfreeze", ["--unfreeze", this.#path]).catch(() => undefined);
    for (const path of [this.#second, this.#path, this.#backing])
      await run("umount", ["--lazy", path]).catch(() => undefined);
    await rm(this.#backing, { recursive: true, force: true });
  }

  get #image(): string {
    return join(this.#backing, "image");
  }

  /** Another mount of the file system. */
  get #second(): string {
    return join(this.#backing, "second");
  }
}
