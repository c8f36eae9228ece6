import { spawnSync } from "node:child_process";
import { globSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

/**
 * The programs of the built package, as a user starts them. They start much faster than their sources, which matters for a
 * suite that starts hundreds of them.
 */
export const builtPrograms = {
  /** The `ramet` command of a user. */
  ramet: [process.execPath, join(root, "bin/ramet.mjs")],
  /** The program with which the parts of `ramet` start each other. */
  part: [process.execPath, join(root, "dist/ramet.js")],
  cell: [process.execPath, join(root, "dist/cell.cjs")],
} as const;

/** Vitest's global setup: builds the package if a source is newer, because the tests run the built package. */
export function setup(): void {
  const sources = globSync("{src,components,provider,policy}/**/*.ts", { cwd: root });
  const newest = Math.max(...sources.map((path) => statSync(join(root, path)).mtimeMs));
  const built = statSync(join(root, "dist/pulumi/index.js"), { throwIfNoEntry: false })?.mtimeMs ?? 0;
  if (built > newest) return;
  const { status, stderr } = spawnSync(process.execPath, ["scripts/build.mjs"], { cwd: root, encoding: "utf8" });
  if (status !== 0) throw new Error(`cannot build the package: ${stderr}`);
}
