import type { Clock } from "../kube/clock.ts";
import type { ClusterSetting } from "./cluster-setting.ts";
import { probeHost } from "./host-probe.ts";
import { ensurePythonImage } from "./images/python-image.ts";
import { cellProgram, rametProgram } from "./programs.ts";
import { acquireTools } from "./tools/acquire-tools.ts";
import { cacheFolder } from "./tools/cache-folder.ts";
import { toolNames } from "./tools/pinned-tools.ts";
import { makeUserFolder } from "./user-folder.ts";

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
  const tools = await acquireTools({ names: toolNames, clock, signal, progress });
  await Promise.all([probeHost(tools["ramet-link"]), ensurePythonImage({ clock, signal, progress })]);
  const program = options.program ?? rametProgram();
  return { v: 1, name, program, cell: cellProgram(), tools, cellImage: "ramet-cell:local" };
}
