import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, realpath, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { hasSystemCode } from "../../base/errors.ts";
import { goferName } from "../../cell/sandbox/saved-image.ts";
import { keep } from "./engine-bundles.ts";

/**
 * Makes a directory with gVisor's side programs, and with Ramet's gofer under the name of gVisor's (runsc/gvisorbinaries). Its name
 * depends on the programs, because cells keep using theirs when the node has others.
 * @returns the directory
 */
export async function linkSidePrograms(parent: string, runsc: string, gofer: string): Promise<string> {
  const own = join(dirname(await realpath(runsc)), "gvisor-bin");
  const names = (await readdir(own).catch(() => [])).filter((name) => name !== goferName).toSorted();
  const content = digestOf(await readFile(gofer));
  const directory = join(parent, digestOf(JSON.stringify([own, names, content])).slice(0, 16));
  await mkdir(directory, { recursive: true, mode: 0o700 });
  await Promise.all([
    ...names.map((name) => linked(join(own, name), join(directory, name))),
    // A cell keeps using it when a later release has removed it from the cache.
    keep(gofer, join(directory, goferName)),
  ]);
  return directory;
}

function digestOf(content: string | Uint8Array): string {
  return createHash("sha256").update(content).digest("hex");
}

async function linked(target: string, path: string): Promise<void> {
  await symlink(target, path).catch((error: unknown) => {
    if (!hasSystemCode(error, "EEXIST")) throw error;
  });
}
