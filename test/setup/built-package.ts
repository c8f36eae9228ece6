import { spawnSync } from "node:child_process";
import { globSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

/**
 * The programs of the built package, as a user starts them. They start in a fraction of the time that their sources take, which
 * a suite that starts hundreds of them feels.
 */
export const builtPrograms = {
  /** `ramet` as it is typed. */
  ramet: [process.execPath, join(root, "bin/ramet.mjs")],
  /** `ramet` as its parts start each other. */
  part: [process.execPath, join(root, "dist/ramet.js")],
  cell: [process.execPath, join(root, "dist/cell.cjs")],
} as const;

/** Vitest's global set-up: what is built is what is tested, so it is built when a source is newer. */
export function setup(): void {
  const sources = globSync("{src,components,provider,policy}/**/*.ts", { cwd: root });
  const newest = Math.max(...sources.map((path) => statSync(join(root, path)).mtimeMs));
  const built = statSync(join(root, "dist/pulumi/index.js"), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (built > newest) return;
  const { status, stderr } = spawnSync(process.execPath, ["scripts/build.mjs"], { cwd: root, encoding: "utf8" });
  if (status !== 0) throw new Error(`the package could not be built: ${stderr}`);
}
