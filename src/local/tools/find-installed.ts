import { access, constants } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { runProgram } from "./run-program.ts";
import type { Tool } from "./tool.ts";

export interface Found {
  path: string;
  /** Said in the progress line. */
  where: string;
}

export interface FindOptions {
  environment: NodeJS.ProcessEnv;
  /** Told of each program of that name that does not fit. */
  passedOver: (what: string) => void;
  signal?: AbortSignal;
}

/** Looks for a fitting version in `PATH` and then in `KUBEBUILDER_ASSETS`. */
export async function findInstalled(tool: Tool, options: FindOptions): Promise<Found | undefined> {
  const { environment, passedOver, signal } = options;
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
    passedOver(`passed over ${path}, which is not a fitting version (${printed.trim().split("\n")[0] ?? ""})`);
  }
  return undefined;
}

export async function isExecutable(path: string): Promise<boolean> {
  return access(path, constants.X_OK).then(
    () => true,
    () => false,
  );
}

/** A program that cannot even say its version does not fit. */
async function printedVersion(path: string, signal: AbortSignal | undefined): Promise<string> {
  const limit = AbortSignal.timeout(5000);
  const printed = await runProgram(path, ["--version"], {
    signal: signal === undefined ? limit : AbortSignal.any([signal, limit]),
  }).catch(() => undefined);
  signal?.throwIfAborted();
  return printed === undefined ? "" : `${printed.stdout}\n${printed.stderr}`;
}
