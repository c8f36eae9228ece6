import { execFile } from "node:child_process";
import { promisify } from "node:util";

const run = promisify(execFile);

/**
 * Mounts a new XFS file system at `path`, in the sparse file `image`. It ends with its mount.
 * @param enter runs a program in the mount namespace of `path` @default this one's
 * @throws where that is not possible, for example without mkfs.xfs
 */
export async function mountXfs(
  { image, path, gibibytes }: { image: string; path: string; gibibytes: number },
  enter: (program: string, args: string[]) => Promise<unknown> = run,
): Promise<void> {
  await run("truncate", ["-s", `${gibibytes}G`, image]);
  await run("mkfs.xfs", ["-q", "-m", "reflink=1", image]);
  await enter("mount", ["-o", "loop", image, path]);
}
