import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import * as z from "zod";
import { RametError } from "../../base/errors.ts";
import { isExecutable } from "./find-installed.ts";
import { runProgram } from "./run-program.ts";
import type { GoBuild } from "./tool.ts";

/** Path of the `go` program: from `PATH`, or where Go's own installation instructions put it. */
export async function findGo(environment: NodeJS.ProcessEnv): Promise<string | undefined> {
  const directories = [...(environment["PATH"] ?? "").split(":").filter((directory) => directory !== ""), "/usr/local/go/bin"];
  for (const directory of directories) {
    const path = join(directory, "go");
    if (await isExecutable(path)) return path;
  }
  return undefined;
}

interface BuildOptions {
  /** That of `go-environment.ts`. */
  environment: Record<string, string>;
  signal?: AbortSignal;
}

/**
 * Builds one program, static and without cgo, from exactly the versions that the module's go.sum names.
 */
export async function goBuild(
  go: string,
  build: GoBuild,
  output: string,
  options: BuildOptions,
): Promise<void> {
  const set = Object.entries(build.set).map(([symbol, value]) => `-X ${symbol}=${value}`);
  const args = ["build", "-trimpath", "-ldflags", ["-s", "-w", ...set].join(" "), "-o", output, build.package];
  try {
    const environment = { ...options.environment, ...(await knownExperiment(go, build, options)) };
    await runProgram(go, args, {
      ...options,
      environment: { ...environment, GOPROXY: await goModuleSources(go, environment) },
      cwd: build.module,
      what: `go build ${build.package}`,
    });
  } catch (error) {
    if (!(error instanceof RametError) || error.code !== "Internal") throw error;
    throw new RametError("ToolMissing", error.message, { cause: error });
  }
}

/** What the module's Go is built with otherwise, where it knows that; it refuses to do anything with what it does not know. */
async function knownExperiment(
  go: string,
  { module, experiment }: GoBuild,
  { environment, signal }: BuildOptions,
): Promise<Record<string, string>> {
  if (experiment === undefined) return {};
  const wish = { GOEXPERIMENT: experiment };
  try {
    await runProgram(go, ["env", "GOVERSION"], { environment: { ...environment, ...wish }, cwd: module, ...(signal && { signal }) });
    return wish;
  } catch (error) {
    if (RametError.from(error).code !== "Internal") throw error;
    return {};
  }
}

const Printed = z.object({ GOPROXY: z.string(), GOMODCACHE: z.string() });

/**
 * Where Go is to get modules from, as a value for `GOPROXY`: first what the user's own module cache has, which is read and not
 * written to, so that a machine that has them needs no network; then what the user has set.
 */
export async function goModuleSources(go: string, environment: Record<string, string>): Promise<string> {
  const { XDG_CONFIG_HOME = "", GOENV = "" } = environment;
  const { stdout } = await runProgram(go, ["env", "-json", "GOPROXY", "GOMODCACHE"], {
    environment: { XDG_CONFIG_HOME, GOENV },
    what: "go env",
  });
  const { GOPROXY, GOMODCACHE } = Printed.parse(JSON.parse(stdout));
  const downloads = join(GOMODCACHE, "cache", "download");
  if (GOMODCACHE === environment["GOMODCACHE"] || !existsSync(downloads)) return GOPROXY;
  return `${pathToFileURL(downloads).href},${GOPROXY}`;
}
