import { clusterFolder, defaultClusterName } from "../../local/cluster-directory.ts";
import { stopCluster } from "../../local/down.ts";
import { exitCodes } from "../exit-codes.ts";
import { printLine, type Io } from "../io.ts";

export interface DownOptions {
  name?: string;
  purge?: boolean;
}

/** `ramet local down`. To end what does not run is no failure. */
export async function localDown(io: Io, { name = defaultClusterName, purge = false }: DownOptions): Promise<number> {
  const folder = clusterFolder(name, io.environment);
  const { wasUp } = await stopCluster({ folder, clock: io.clock, signal: io.signal, purge });
  const kept = purge ? "What it kept is removed." : `What it keeps is in ${folder.path}.`;
  printLine(io.stderr, `The local cluster ${name} is down${wasUp ? "" : ": it did not run"}. ${kept}`);
  return exitCodes.ok;
}
