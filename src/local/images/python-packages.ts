import { createHash } from "node:crypto";
import { readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { RametError } from "../../base/errors.ts";
import { exists } from "../files.ts";
import type { ProgressLine } from "../tools/progress.ts";
import { runProgram } from "../tools/run-program.ts";
import { unpackDebianPackage } from "./debian-tar.ts";

export interface PackagesOptions {
  /** A requirements file with exact versions and digests. */
  requirements: string;
  /** The parent of the packages' directory, which is kept. */
  directory: string;
  line: ProgressLine;
  signal?: AbortSignal | undefined;
}

/**
 * Returns a directory with the packages of a requirements file, for the Python of the image `python` and this machine's
 * architecture. Downloads them on first use with pip, from the package index that this machine's pip uses.
 */
export async function downloadPythonPackages(options: PackagesOptions): Promise<string> {
  const { requirements, directory, line, signal } = options;
  const key = createHash("sha256").update(await readFile(requirements));
  const target = join(directory, `packages-${key.update(process.arch).digest("hex").slice(0, 16)}`);
  if (await exists(target)) return target;
  const pip = await findPip(directory, line, signal);
  line.doing("downloading Python packages");
  const made = join(directory, "making-packages");
  await rm(made, { recursive: true, force: true });
  const args = ["-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes", "--only-binary=:all:"];
  await runProgram("python3", [...args, ...imagePython(), "--dest", made, "--requirement", requirements], {
    what: "pip download",
    environment: { PIP_DISABLE_PIP_VERSION_CHECK: "1", ...pip },
    signal,
  });
  await rename(made, target);
  return target;
}

/** Which packages pip selects: it may run with another Python than the image has, Debian 12's 3.11. */
function imagePython(): string[] {
  const architecture = { x64: "x86_64", arm64: "aarch64" }[process.arch as string];
  if (architecture === undefined) {
    throw new RametError("HostUnsupported", `the packages are for x86_64 and aarch64, not ${process.arch}`);
  }
  const platforms = ["2_28", "2_27", "2_26", "2_24", "2_17", "2014"].map((version) => {
    return `--platform=manylinux${version === "2014" ? "" : "_"}${version}_${architecture}`;
  });
  return ["--implementation=cp", "--python-version=3.11", "--abi=cp311", "--abi=abi3", "--abi=none", ...platforms];
}

/** The environment in which `python3 -m pip` works. Unpacks pip from its Debian package if it is not installed. */
async function findPip(directory: string, line: ProgressLine, signal?: AbortSignal): Promise<Record<string, string>> {
  const installed = await runProgram("python3", ["-m", "pip", "--version"], { signal }).catch(() => undefined);
  if (installed !== undefined) return {};
  line.doing("unpacking pip from its Debian package");
  const unpacked = join(directory, "pip");
  await rm(unpacked, { recursive: true, force: true });
  await unpackDebianPackage("python3-pip", unpacked, signal);
  return { PYTHONPATH: join(unpacked, "usr", "lib", "python3", "dist-packages") };
}
