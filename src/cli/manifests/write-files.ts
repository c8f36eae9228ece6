import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { RametError } from "../../base/errors.ts";
import type { ManifestFile } from "./render-manifests.ts";

/**
 * Writes files that were made, over those that were made before. Nothing is written where one of them is somebody else's.
 * @param mark what every file that was made begins with
 * @throws RametError `AlreadyExists`; `Unavailable` when the folder cannot be read or written
 */
export async function writeFiles(folder: string, files: readonly ManifestFile[], mark: string): Promise<void> {
  for (const { name } of files) await refuseOthers(join(folder, name), mark);
  try {
    await mkdir(folder, { recursive: true });
    for (const { name, text } of files) await writeFile(join(folder, name), text);
  } catch (cause) {
    throw new RametError("Unavailable", `${folder} cannot be written: ${RametError.from(cause).message}`, { cause });
  }
}

async function refuseOthers(path: string, mark: string): Promise<void> {
  const there = await readFile(path, "utf8").catch((cause: unknown) => {
    if (cause instanceof Error && "code" in cause && cause.code === "ENOENT") return mark;
    throw new RametError("Unavailable", `${path} cannot be read: ${RametError.from(cause).message}`, { cause });
  });
  if (there.startsWith(mark)) return;
  throw new RametError("AlreadyExists", `${path} exists, and ramet manifests has not made it`, {
    hint: "Choose another folder, and name that one among the resources of your own kustomization",
  });
}
