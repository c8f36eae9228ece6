import { mkdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** Links this package and its Pulumi packages into the program, as `npm install` with links does. */
export async function linkPackages(program: string): Promise<void> {
  await mkdir(join(program, "node_modules"));
  await symlink(root, join(program, "node_modules/ramet"));
  await symlink(join(root, "node_modules/@pulumi"), join(program, "node_modules/@pulumi"));
}
