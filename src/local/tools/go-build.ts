import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import * as z from "zod";
import { RametError, unlessCode } from "../../base/errors.ts";
import { findOnPath } from "./find-installed.ts";
import { runProgram } from "./run-program.ts";
import type { GoBuild } from "./tool.ts";

/** Finds the `go` program in `PATH`, or in the directory of Go's installation instructions. */
export function findGo(environment: NodeJS.ProcessEnv): Promise<string | undefined> {
  return findOnPath("go", environment, ["/usr/local/go/bin"]);
}

interface BuildOptions {
  /** The result of `goEnvironment`. */
  environment: Record<string, string>;
  signal?: AbortSignal | undefined;
  /** Whether other programs of the machine have priority. @default false */
  lowPriority?: boolean | undefined;
}

/**
 * Builds one static program without cgo, from exactly the versions in the module's go.sum.
 */
export async function goBuild(go: string, build: GoBuild, output: string, options: BuildOptions): Promise<void> {
  const set = Object.entries(build.set).map(([symbol, value]) => `-X ${symbol}=${value}`);
  await runGo(go, ["build", "-trimpath", "-ldflags", ["-s", "-w", ...set].join(" "), "-o", output], build, options);
}

/** Downloads the modules of a program that Go does not have yet. */
export async function goDownload(go: string, build: GoBuild, options: BuildOptions): Promise<void> {
  await runGo(go, ["list", "-deps"], build, options);
}

async function runGo(go: string, args: readonly string[], build: GoBuild, options: BuildOptions): Promise<void> {
  try {
    const environment = { ...options.environment, ...(await knownExperiment(go, build, options)) };
    const [program, ...before] = options.lowPriority === true ? ["nice", "-n", "19", go] : [go];
    await runProgram(program, [...before, ...args, build.package], {
      ...options,
      environment: { ...environment, GOPROXY: await goModuleSources(go, environment) },
      cwd: build.module,
      what: `go ${args[0]} ${build.package}`,
    });
  } catch (error) {
    if (!(error instanceof RametError) || error.code !== "Internal") throw error;
    throw new RametError("ToolMissing", error.message, { cause: error });
  }
}

/** The `GOEXPERIMENT` variable, if this version of Go supports the value. Go fails on an unknown value. */
async function knownExperiment(
  go: string,
  { module, experiment }: GoBuild,
  { environment, signal }: BuildOptions,
): Promise<Record<string, string>> {
  if (experiment === undefined) return {};
  const variables = { GOEXPERIMENT: experiment };
  const options = { environment: { ...environment, ...variables }, cwd: module, signal };
  const known = await runProgram(go, ["env", "GOVERSION"], options).catch(unlessCode("Internal"));
  return known === undefined ? {} : variables;
}

const Printed = z.object({ GOPROXY: z.string(), GOMODCACHE: z.string() });

/**
 * A value for `GOPROXY`: first the user's module cache (read-only), so that a machine with a filled cache needs no network,
 * then the user's setting.
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
