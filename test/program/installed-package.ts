import { execFile } from "node:child_process";
import { mkdir, readdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../..", import.meta.url));

/** Packs the built package as for publishing. Returns the path of the tarball. */
export async function packPackage(directory: string): Promise<string> {
  await run("tsc", ["-p", "tsconfig.pulumi-types.json"], { cwd: root });
  const { stdout } = await run("npm", ["pack", "--ignore-scripts", "--json", "--pack-destination", directory], {
    cwd: root,
  });
  const [packed] = JSON.parse(stdout) as { filename: string }[];
  return join(directory, packed?.filename ?? "");
}

/** Installs the tarball as `npm install` does, with the packages of this repository. */
export async function installAsNpm(tarball: string, program: string): Promise<void> {
  const modules = join(program, "node_modules");
  await mkdir(join(modules, "ramet"), { recursive: true });
  await run("tar", ["-xzf", tarball, "--strip-components=1", "-C", join(modules, "ramet")]);
  for (const name of await readdir(join(root, "node_modules"))) {
    if (name !== "ramet" && !name.startsWith(".")) await symlink(join(root, "node_modules", name), join(modules, name));
  }
}

/** Pinned, because other versions may use another directory layout. */
const pnpm = "pnpm@12.21.0";

/** Whether pnpm can be downloaded. Only these tests need it. */
export async function hasPnpm(): Promise<boolean> {
  return run("npx", ["--yes", pnpm, "--version"], { timeout: 60_000 }).then(
    () => true,
    () => false,
  );
}

/** Installs the dependencies of the program with pnpm, in its own store with links. */
export async function installWithPnpm(program: string): Promise<void> {
  const store = join(program, "..", "pnpm-store");
  await run("npx", ["--yes", pnpm, "install", "--ignore-scripts", "--store-dir", store], { cwd: program });
}
