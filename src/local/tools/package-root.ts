import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";

const Manifest = z.object({ name: z.string().optional() });

/** The folder of this package: the one with `native` and `tools`, whether this runs from `src` or bundled from `dist`. */
export function packageRoot(from: string = import.meta.dirname): string {
  const manifest = join(from, "package.json");
  if (existsSync(manifest) && Manifest.parse(JSON.parse(readFileSync(manifest, "utf8"))).name === "ramet") return from;
  const parent = dirname(from);
  if (parent === from) throw new TypeError("the folder of the package `ramet` was not found above its own code");
  return packageRoot(parent);
}
