import { clusterDirectory } from "../../local/cluster-directory.ts";
import { runNodeProcess } from "../../local/node/node-process.ts";
import { superviseCluster } from "../../local/supervisor/supervise.ts";
import { exitCodes } from "../exit-codes.ts";
import type { Io } from "../io.ts";

/** `ramet local node`: runs the node of a local cluster until a signal arrives. */
export async function localNode(io: Io, { name }: { name: string }): Promise<number> {
  await runNodeProcess(clusterDirectory(name, io.environment), io.signal);
  return exitCodes.ok;
}

/** `ramet local supervise`: the process that `up` starts in the background. */
export async function localSupervise(io: Io, { name }: { name: string }): Promise<number> {
  await superviseCluster(clusterDirectory(name, io.environment), io.signal);
  return exitCodes.ok;
}
