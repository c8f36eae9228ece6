import { mkdir, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { isExecutable } from "../tools/find-installed.ts";
import type { ProgressLine } from "../tools/progress.ts";
import { runProgram } from "../tools/run-program.ts";

/**
 * The command that runs `mmdebstrap`: the installed one, or one that is unpacked from its Debian package into `work` and
 * not installed. It is a Perl script that needs nothing but apt, dpkg and Perl's own modules.
 */
export async function findMmdebstrap(
  work: string,
  line: ProgressLine,
  signal?: AbortSignal,
): Promise<[string, ...string[]]> {
  const installed = "/usr/bin/mmdebstrap";
  if (await isExecutable(installed)) return [installed];
  const unpacked = join(work, "mmdebstrap");
  const script = join(unpacked, "usr", "bin", "mmdebstrap");
  if (!(await isExecutable(script))) {
    line.doing("unpacking mmdebstrap from its Debian package");
    const folder = join(work, "making-mmdebstrap");
    await mkdir(folder);
    const options = signal === undefined ? {} : { signal };
    await runProgram("apt-get", ["download", "mmdebstrap"], {
      ...options,
      cwd: folder,
      what: "apt-get download mmdebstrap",
    });
    const [archive = "mmdebstrap.deb"] = await readdir(folder);
    await runProgram("dpkg-deb", ["-x", join(folder, archive), join(folder, "root")], options);
    await rename(join(folder, "root"), unpacked);
    await rm(folder, { recursive: true, force: true });
  }
  return ["perl", script];
}
