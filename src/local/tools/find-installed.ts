import { access, constants } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { runProgram } from "./run-program.ts";
import type { Tool } from "./tool.ts";
import { isFulfilled } from "../../base/errors.ts";

/**
 * Searches `PATH`, then `KUBEBUILDER_ASSETS`, for a suitable version.
 * @param onSkipped called for each program of that name with an unsuitable version
 */
export async function findInstalled(
  tool: Tool,
  environment: NodeJS.ProcessEnv,
  onSkipped: (what: string) => void,
  signal: AbortSignal | undefined,
): Promise<{ path: string; where: string } | undefined> {
  if (tool.fits === undefined) return undefined;
  const directories = pathOf(environment).map((directory) => ({ directory, where: "PATH" }));
  const assets = environment["KUBEBUILDER_ASSETS"];
  if (assets !== undefined) directories.push({ directory: assets, where: "KUBEBUILDER_ASSETS" });
  for (const { directory, where } of directories) {
    const path = join(directory, tool.name);
    if (!(await isExecutable(path))) continue;
    const printed = await printedVersion(path, signal);
    if (await tool.fits(printed, path)) return { path, where };
    onSkipped(`skipped ${path}: unsuitable version (${printed.trim().split("\n")[0] ?? ""})`);
  }
  return undefined;
}

/** The path of a program in the directories of `PATH`, or in `more`. */
export async function findOnPath(
  program: string,
  environment: NodeJS.ProcessEnv,
  more: readonly string[] = [],
): Promise<string | undefined> {
  for (const directory of [...pathOf(environment), ...more]) {
    const path = join(directory, program);
    if (await isExecutable(path)) return path;
  }
  return undefined;
}

function pathOf({ PATH = "" }: NodeJS.ProcessEnv): string[] {
  return PATH.split(delimiter).filter((directory) => directory.startsWith("/"));
}

export async function isExecutable(path: string): Promise<boolean> {
  return isFulfilled(access(path, constants.X_OK));
}

/** Empty if the program cannot print its version, which is then unsuitable. */
async function printedVersion(path: string, signal: AbortSignal | undefined): Promise<string> {
  const limit = AbortSignal.timeout(5000);
  const printed = await runProgram(path, ["--version"], {
    signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
  }).catch(() => undefined);
  signal?.throwIfAborted();
  return printed === undefined ? "" : `${printed.stdout}\n${printed.stderr}`;
}
