import { mkdir, readdir, rename, rm } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { isExecutable } from "../tools/find-installed.ts";
import type { ProgressLine } from "../tools/progress.ts";
import { runProgram } from "../tools/run-program.ts";

/** How to run `mmdebstrap`. */
export interface MmdebstrapCommand {
  program: string;
  /** What goes before its own arguments. */
  before: string[];
  environment: Record<string, string>;
}

/**
 * The installed `mmdebstrap`, or one that is unpacked from its Debian package into `work` and not installed. It is a Perl
 * script that needs apt, dpkg, Perl's own modules, Python, and on `PATH` the filter that its package brings.
 */
export async function findMmdebstrap(
  work: string,
  line: ProgressLine,
  signal?: AbortSignal,
): Promise<MmdebstrapCommand> {
  const installed = "/usr/bin/mmdebstrap";
  if (await isExecutable(installed)) return { program: installed, before: [], environment: {} };
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
  const path = [dirname(script), process.env["PATH"] ?? "/usr/bin:/bin"].join(delimiter);
  return { program: "perl", before: [script], environment: { PATH: path } };
}
