import { RametError } from "../base/errors.ts";
import type { Clock } from "../base/clock.ts";
import type { ClusterSetting } from "./cluster-setting.ts";
import { probeHost } from "./host-probe.ts";
import { ensurePythonImage } from "./images/python-image.ts";
import { cellProgram, rametProgram } from "./programs.ts";
import { acquireTools } from "./tools/acquire-tools.ts";
import { cacheFolder } from "./tools/cache-directory.ts";
import { toolNames } from "./tools/pinned-tools.ts";
import { makeUserFolder } from "./user-directory.ts";

export interface PrepareOptions {
  name: string;
  clock: Clock;
  signal: AbortSignal;
  progress: (line: string) => void;
  /** How `ramet` is started. @default as this very code is */
  program?: string[];
}

/**
 * Gets what a cluster needs onto this machine: the tools, the image `python`, and the certainty that sandboxes can run
 * here. Takes minutes the first time and no time afterwards.
 * @throws RametError `ToolMissing`, `ImageNotFound`, `HostUnsupported`, `Forbidden`
 */
export async function prepareCluster(options: PrepareOptions): Promise<ClusterSetting> {
  const { name, clock, signal, progress } = options;
  await makeUserFolder(cacheFolder(), "XDG_CACHE_HOME");
  const tools = await acquireProbed({ clock, signal, progress });
  await ensurePythonImage({ clock, signal, progress });
  const program = options.program ?? rametProgram();
  return { v: 1, name, program, cell: cellProgram(), tools, cellImage: "ramet-cell:local" };
}

/** The program that probes the machine comes first: where sandboxes cannot run, nothing else is worth minutes of building. */
async function acquireProbed(
  options: Pick<PrepareOptions, "clock" | "signal" | "progress">,
): Promise<ClusterSetting["tools"]> {
  const probe = await acquireTools({ ...options, names: ["ramet-link"] }).catch((error: unknown) => {
    // What is missing is told of all tools at once, below.
    if (RametError.from(error).code === "ToolMissing") return undefined;
    throw error;
  });
  if (probe === undefined) return acquireTools({ ...options, names: toolNames });
  await probeHost(probe["ramet-link"]);
  const others = toolNames.filter((name) => name !== "ramet-link");
  return { ...(await acquireTools({ ...options, names: others })), ...probe };
}
