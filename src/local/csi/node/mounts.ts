import { readFile, stat } from "node:fs/promises";
import { RametError, errnoOf } from "../../../base/errors.ts";
import { type Mount, parseMounts } from "../../../base/mount-table.ts";
import { runProgram } from "../../../base/run-program.ts";

/** Mounts the directory `source` at the existing directory `target`. */
export async function bindMount(source: string, target: string, flags: readonly string[]): Promise<void> {
  await run("mount", ["--bind", "--", source, target]);
  if (flags.length === 0) return;
  // The kernel takes the flags of a bind mount only in a second step.
  await run("mount", ["-o", ["remount", "bind", ...flags].join(","), "--", target]).catch(async (error: unknown) => {
    await unmount(target);
    throw error;
  });
}

/** Removes the topmost mount at `target`. */
export async function unmount(target: string): Promise<void> {
  await run("umount", ["--", target]);
}

/** Whether both paths lead to the same directory, as a bind mount and its source do. */
export async function isSameDirectory(a: string, b: string): Promise<boolean> {
  const [one, other] = await Promise.all([identityOf(a), identityOf(b)]);
  return one !== undefined && one === other;
}

/** The mount points at which a directory is visible, from the mount table of this process. */
export async function mountPointsOf(directory: string): Promise<string[]> {
  const mounts = parseMounts(await readFile("/proc/self/mountinfo", "utf8"));
  // The last of those at the longest path has the directory: it covers the others.
  const holder = mounts
    .filter(({ target: at }) => directory === at || directory.startsWith(at === "/" ? "/" : `${at}/`))
    .reduce<Mount | undefined>(
      (best, one) => (best !== undefined && best.target.length > one.target.length ? best : one),
      undefined,
    );
  if (holder === undefined) return [];
  const below = directory.slice(holder.target === "/" ? 0 : holder.target.length);
  const root = `${holder.root === "/" ? "" : holder.root}${below}`;
  return mounts.filter((one) => one.device === holder.device && one.root === root).map(({ target }) => target);
}

/** Whether something is mounted at exactly this path. */
export async function isMountPoint(path: string): Promise<boolean> {
  return parseMounts(await readFile("/proc/self/mountinfo", "utf8")).some(({ target }) => target === path);
}

async function identityOf(path: string): Promise<string | undefined> {
  try {
    const { dev, ino } = await stat(path, { bigint: true });
    return `${dev} ${ino}`;
  } catch (error) {
    if (["ENOENT", "ENOTDIR"].includes(errnoOf(error) ?? "")) return undefined;
    throw error;
  }
}

async function run(program: string, args: readonly string[]): Promise<void> {
  const { code, stderr } = await runProgram({ program, args, timeoutMilliseconds: 30_000 });
  if (code === 0) return;
  const why = stderr.trim().split("\n").at(-1) ?? "";
  throw new RametError("Internal", `${program} failed: ${why}`, { retryable: true });
}
