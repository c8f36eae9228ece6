import { execFile } from "node:child_process";
import { mkdir, readdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const root = fileURLToPath(new URL("../..", import.meta.url));

/** The package as it would be published, of what is built. Answers the path of the tarball. */
export async function packPackage(directory: string): Promise<string> {
  await run("tsc", ["-p", "tsconfig.pulumi-types.json"], { cwd: root });
  const { stdout } = await run("npm", ["pack", "--ignore-scripts", "--json", "--pack-destination", directory], {
    cwd: root,
  });
  const [packed] = JSON.parse(stdout) as { filename: string }[];
  return join(directory, packed?.filename ?? "");
}

/** As `npm install` of the tarball would leave it, with the packages that this repository has. */
export async function installAsNpm(tarball: string, program: string): Promise<void> {
  const modules = join(program, "node_modules");
  await mkdir(join(modules, "ramet"), { recursive: true });
  await run("tar", ["-xzf", tarball, "--strip-components=1", "-C", join(modules, "ramet")]);
  for (const name of await readdir(join(root, "node_modules"))) {
    if (name !== "ramet" && !name.startsWith(".")) await symlink(join(root, "node_modules", name), join(modules, name));
  }
}

/** In exactly this version: another one may lay its folders otherwise. */
const pnpm = "pnpm@12.21.0";

/** Whether pnpm can be had: it is fetched when it is needed, as no one else here needs it. */
export async function hasPnpm(): Promise<boolean> {
  return run("npx", ["--yes", pnpm, "--version"], { timeout: 60_000 }).then(
    () => true,
    () => false,
  );
}

/** What `package.json` in the folder of the program asks for, as pnpm lays it out: a store of its own, and links. */
export async function installWithPnpm(program: string): Promise<void> {
  const store = join(program, "..", "pnpm-store");
  await run("npx", ["--yes", pnpm, "install", "--ignore-scripts", "--store-dir", store], { cwd: program });
}
