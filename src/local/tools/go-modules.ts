import { existsSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { z } from "zod";
import { runProgram } from "./run-program.ts";

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
