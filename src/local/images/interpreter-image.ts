import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { cp, mkdir, readdir, readFile, rm, writeFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { RametError } from "../../base/errors.ts";
import { exists } from "../files.ts";
import type { ProgressLine } from "../tools/progress.ts";
import { runProgram } from "../tools/run-program.ts";
import { packageRoot } from "../tools/tool.ts";
import { buildOnce, type BuildOptions, type ImageBuild } from "./build-once.ts";
import { debianRecipe, makeDebianTar, unpackDebianPackage } from "./debian-tar.ts";
import type { Image } from "./image-store.ts";
import type { ImageConfig } from "./oci-layout.ts";
import { ensurePythonImage } from "./python-image.ts";
import { copyDirectory, isRoot, unpackTar } from "./unpack-tar.ts";

/**
 * The names of the images for E2B's code-interpreter SDKs. The small one has fewer packages and no Node.js; the last one has R and Java
 * too.
 */
export const interpreterImageNames = ["code-interpreter", "code-interpreter-small", "code-interpreter-all"] as const;
export type InterpreterImageName = (typeof interpreterImageNames)[number];

/** The configuration of the image, as `images/code-interpreter/Dockerfile` has it. */
export const interpreterConfig: Partial<ImageConfig> = {
  cmd: ["sh", "/opt/code-interpreter/bin/serve-code"],
  env: [
    "PATH=/opt/code-interpreter/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG=C.UTF-8",
    "PYTHONUNBUFFERED=1",
    "NODE_OPTIONS=--require=/opt/code-interpreter/lib/reseed/reseed.cjs",
    "RAMET_RESEEDS=node",
  ],
  workingDir: "/home/user",
};

/**
 * Returns an image of the code interpreter: the image `python`, or Debian with R and Java, with Jupyter kernels and the server of `images/code-interpreter`.
 * Builds it if it is missing or its recipe has changed, with packages from the Python package index that this machine's pip
 * uses (150 MB, or 70 for the small one) and, for Node.js, from the npm registry of this machine (60 MB).
 *
 * @throws RametError `ImageNotFound` with instructions if it cannot be built
 */
export async function ensureInterpreterImage(
  options: BuildOptions = {},
  name: InterpreterImageName = "code-interpreter",
): Promise<Image> {
  const base =
    name === "code-interpreter-all" ? await debianWithRAndJava() : imageBase(await ensurePythonImage(options));
  const build = { name, directory: name, recipeFile, recipe: await recipeDigest(base) };
  return buildOnce(build, options, async (parts) =>
    make(base, build, parts).catch((error: unknown) => {
      parts.signal?.throwIfAborted();
      throw buildFailed(name, error);
    }),
  );
}

/** The root file system below the interpreter. */
interface Base {
  digest: string;
  writeTo(root: string, parts: ImageBuild): Promise<void>;
}

function imageBase({ digest, rootPath }: Image): Base {
  return { digest, writeTo: (root, { signal }) => copyDirectory(rootPath, root, signal) };
}

async function debianWithRAndJava(): Promise<Base> {
  const recipe = await debianRecipe(["r-cran-irkernel", "openjdk-17-jdk-headless"]);
  return {
    digest: recipe.digest,
    async writeTo(root, { work, scratch, line, signal }) {
      const path = join(scratch, "base.tar");
      await makeDebianTar({ path, work, line, recipe, signal });
      await unpackTar(createReadStream(path), root, signal);
      await rm(path);
    },
  };
}

/** The file of the image with the digest of what it was built from. */
const recipeFile = join("opt", "code-interpreter", "recipe");

const source = (): string => join(packageRoot(), "images", "code-interpreter");

/** Returns the digest of the files that are installed, and of the image below them. */
async function recipeDigest({ digest }: Base): Promise<string> {
  const hash = createHash("sha256").update(JSON.stringify([digest, interpreterConfig]));
  const entries = await readdir(source(), { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  for (const file of files.filter((path) => !path.endsWith(".pyc")).sort()) {
    hash.update(`\0${file.slice(source().length)}\0`).update(await readFile(file));
  }
  return `sha256:${hash.digest("hex")}`;
}

async function make(
  base: Base,
  { name, recipe }: { name: InterpreterImageName; recipe: string },
  parts: ImageBuild,
): Promise<Image> {
  const { store, work, scratch, line, signal } = parts;
  const isSmall = name === "code-interpreter-small";
  line.note(`building it once (about ${isSmall ? 60 : 100} s)`);
  const file = `requirements${isSmall ? "-small" : ""}.txt`;
  const requirements = join(source(), file);
  const packages = await downloadPythonPackages({ requirements, directory: work, line, signal });
  const root = join(scratch, "root");
  await mkdir(root);
  await base.writeTo(root, parts);
  await cp(source(), join(root, "build", "source"), { recursive: true });
  await cp(packages, join(root, "build", "packages"), { recursive: true });
  const script = ["sh", "/build/source/install.sh", "/build/source", `/build/source/${file}`, "/build/packages"];
  if (!isSmall) {
    await installNode(join(root, "build", "source", "node"), parts);
    script.push("/build/source/node/node_modules");
  }
  line.doing("installing the packages");
  await runInside(root, script, signal);
  await rm(join(root, "build"), { recursive: true });
  await writeFile(join(root, recipeFile), recipe);
  line.doing("adding the image");
  return store.add(name, root, { config: interpreterConfig, signal });
}

/** Installs the packages of a directory's package-lock.json. None of their scripts runs. */
async function installNode(directory: string, { line, signal }: ImageBuild): Promise<void> {
  line.doing("downloading Node.js (60 MB)");
  await runProgram("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund"], {
    cwd: directory,
    what: "npm ci",
    signal,
  });
}

/** Runs a program in a root file system, as root of it. */
async function runInside(root: string, command: string[], signal?: AbortSignal): Promise<void> {
  const chroot = ["chroot", root, ...command];
  const [program = "", ...args] = isRoot() ? chroot : ["unshare", "--map-root-user", ...chroot];
  await runProgram(program, args, {
    what: "Installing the packages",
    environment: { PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", LC_ALL: "C.UTF-8" },
    signal,
  });
}

function buildFailed(name: string, cause: unknown): RametError {
  const { message, hint } = RametError.from(cause);
  return new RametError("ImageNotFound", `Building the image ${name} failed: ${message}`, {
    hint:
      hint ??
      "Configure pip with a Python package index, or build images/code-interpreter/Dockerfile elsewhere and add it: " +
        `ramet local image add ${name} PATH (an OCI layout)`,
    cause,
  });
}

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
