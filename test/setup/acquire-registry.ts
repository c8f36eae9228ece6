import { access, mkdir, mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "../../src/base/clock.ts";
import { withLock } from "../../src/local/tools/lock.ts";
import { runProgram } from "../../src/local/tools/run-program.ts";
import { cacheDirectory } from "../../src/local/tools/tool.ts";

/**
 * Returns the path of the distribution project's registry, from Debian's package `docker-registry`. If it is not installed, the
 * package is downloaded with apt and unpacked into the user's cache: a build from source would take minutes.
 */
export async function acquireRegistry(progress: (line: string) => void = () => undefined): Promise<string> {
  const installed = "/usr/bin/docker-registry";
  if (await exists(installed)) return installed;
  const parent = join(cacheDirectory(), "tools", "docker-registry");
  const program = join(parent, "root", "usr", "bin", "docker-registry");
  await mkdir(parent, { recursive: true });
  await withLock(join(parent, "lock"), { clock: systemClock }, async () => {
    if (await exists(program)) return;
    progress("docker-registry: unpacking its Debian package");
    const making = await mkdtemp(join(parent, "making-"));
    await runProgram("apt-get", ["download", "docker-registry"], { cwd: making });
    const [archive = "docker-registry.deb"] = await readdir(making);
    await runProgram("dpkg-deb", ["-x", join(making, archive), join(making, "root")]);
    await rename(join(making, "root"), join(parent, "root"));
    await rm(making, { recursive: true, force: true });
  });
  return program;
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
