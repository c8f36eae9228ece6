import { randomBytes } from "node:crypto";
import { constants } from "node:fs";
import { copyFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

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
