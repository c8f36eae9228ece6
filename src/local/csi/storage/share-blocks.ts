import { constants, copyFile, mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { errnoOf } from "../../../base/errno.ts";

/** Whether files in this directory can share blocks, as on btrfs and on XFS with reflinks. */
export async function canShareBlocks(directory: string): Promise<boolean> {
  const probe = await mkdtemp(join(directory, "probe-"));
  try {
    await writeFile(join(probe, "a"), "x".repeat(65_536));
    await copyFile(join(probe, "a"), join(probe, "b"), constants.COPYFILE_FICLONE_FORCE);
    return true;
  } catch (error) {
    if (refusals.has(errnoOf(error) ?? "")) return false;
    throw error;
  } finally {
    await rm(probe, { recursive: true, force: true });
  }
}

/** How file systems and kernels refuse FICLONE (ioctl_ficlone(2)). */
const refusals: ReadonlySet<string> = new Set([
  "ENOTSUP",
  "EOPNOTSUPP",
  "ENOTTY",
  "EINVAL",
  "EXDEV",
  "ENOSYS",
  "EPERM",
]);
