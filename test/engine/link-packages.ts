import { mkdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** As `npm install` with links would leave it: the program's own packages, and those of this repository. */
export async function linkPackages(program: string): Promise<void> {
  await mkdir(join(program, "node_modules"));
  await symlink(root, join(program, "node_modules/ramet"));
  await symlink(join(root, "node_modules/@pulumi"), join(program, "node_modules/@pulumi"));
}
