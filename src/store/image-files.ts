import { readdir } from "node:fs/promises";
import { RametError } from "../base/errors.ts";
import { FileName } from "./manifest.ts";

/** The names of the files that gVisor has written, in order. `InvalidArgument` unless all are plain files, and there is one. */
export async function imageFiles(imagePath: string): Promise<string[]> {
  const entries = await readdir(imagePath, { withFileTypes: true });
  for (const entry of entries) {
    if (!entry.isFile()) throw illegalFile(entry.name, "it is not a plain file");
    if (!FileName.safeParse(entry.name).success) throw illegalFile(entry.name, "its name is not allowed");
  }
  if (entries.length === 0)
    throw new RametError("InvalidArgument", "publishing was refused: the checkpoint has no files");
  return entries.map((entry) => entry.name).sort();
}

export function illegalFile(name: string, why: string): RametError {
  return new RametError("InvalidArgument", `publishing was refused: file ${JSON.stringify(name)}: ${why}`);
}
