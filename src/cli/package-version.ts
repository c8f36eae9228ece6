import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** The version of this package, from `src` as from `dist`. Every command reads it when it starts, so it needs no schema. */
export function packageVersion(from: string = import.meta.dirname): string {
  const { name, version } = manifestIn(from);
  if (name === "ramet" && typeof version === "string") return version;
  const parent = dirname(from);
  if (parent === from) throw new TypeError("the package.json of the package `ramet` was not found above its own code");
  return packageVersion(parent);
}

function manifestIn(directory: string): { name?: unknown; version?: unknown } {
  try {
    return JSON.parse(readFileSync(join(directory, "package.json"), "utf8")) as object;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return {};
    throw error;
  }
}
