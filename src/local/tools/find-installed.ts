import { access, constants } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { runProgram } from "./run-program.ts";
import type { Tool } from "./tool.ts";

export interface Found {
  path: string;
  /** Shown in the progress line. */
  where: string;
}

export interface FindOptions {
  environment: NodeJS.ProcessEnv;
  /** Called for each program of that name with an unsuitable version. */
  onSkipped: (what: string) => void;
  signal?: AbortSignal;
}

/** Searches `PATH`, then `KUBEBUILDER_ASSETS`, for a suitable version. */
export async function findInstalled(tool: Tool, options: FindOptions): Promise<Found | undefined> {
  const { environment, onSkipped, signal } = options;
  if (tool.fits === undefined) return undefined;
  const directories = (environment["PATH"] ?? "")
    .split(delimiter)
    .filter((directory) => directory.startsWith("/"))
    .map((directory) => ({ directory, where: "PATH" }));
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

export async function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
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
