import { execFile } from "node:child_process";
import { access, cp, mkdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import * as z from "zod";
import { systemClock } from "../../src/base/clock.ts";
import { cacheDirectory } from "../../src/local/tools/tool.ts";
import { withLock } from "../../src/local/tools/lock.ts";

const declared = join(import.meta.dirname, "..", "tools", "azurite");

/**
 * Returns the path of Azurite, Microsoft's emulator of Azure Blob. Installs it into the user's cache on first use, with the
 * packages that `test/tools/azurite` pins. It is not a dependency, because its 250 MB would come with every checkout.
 */
export async function acquireAzurite(progress: (line: string) => void = () => undefined): Promise<string> {
  const { dependencies } = Declared.parse(JSON.parse(await readFile(join(declared, "package.json"), "utf8")));
  const parent = join(cacheDirectory(), "tools", "azurite");
  const directory = join(parent, dependencies.azurite);
  const program = join(directory, "node_modules", "azurite", "dist", "src", "blob", "main.js");
  const lock = join(parent, `${dependencies.azurite}.lock`);
  await withLock(lock, { clock: systemClock }, async () => {
    if (await exists(program)) return;
    progress(`azurite ${dependencies.azurite}: installing it, about 30 s`);
    const making = `${directory}.making`;
    await rm(making, { recursive: true, force: true });
    await mkdir(making, { recursive: true });
    for (const name of ["package.json", "package-lock.json"]) await cp(join(declared, name), join(making, name));
    await promisify(execFile)("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund"], { cwd: making });
    await rename(making, directory);
  });
  return program;
}

const Declared = z.object({ dependencies: z.object({ azurite: z.string() }) });

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
