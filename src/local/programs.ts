import { existsSync } from "node:fs";
import { join, sep } from "node:path";
import { packageRoot } from "./tools/package-root.ts";

/** How `ramet` is started here: Node and the file that it runs, bundled or from its sources, as this very code is. */
export function rametProgram(): string[] {
  return [process.execPath, ownFile("ramet.js", join("src", "cli", "main.ts"))];
}

/** The cell's program. Its bundle starts in half the time, so it is taken wherever it was built for this code. */
export function cellProgram(): string[] {
  return [process.execPath, ownFile("cell.js", join("src", "cell", "main.ts"))];
}

function ownFile(bundle: string, source: string): string {
  const root = packageRoot();
  const bundled = join(root, "dist", bundle);
  return import.meta.dirname.startsWith(join(root, "dist") + sep) || isBundle(root) ? bundled : join(root, source);
}

/** In an installed package there are no sources. */
function isBundle(root: string): boolean {
  return import.meta.dirname === join(root, "dist") || !existsSync(join(root, "src"));
}
