import { clusterDirectory } from "../../local/cluster-directory.ts";
import { runNodeProcess } from "../../local/node/node-process.ts";
import { runSupervisorProcess } from "../../local/supervisor/supervise.ts";
import { exitCodes } from "../exit-codes.ts";
import type { Io } from "../io.ts";

/** `ramet local node`: the node of a local cluster, until a signal comes. */
export async function localNode(io: Io, { name }: { name: string }): Promise<number> {
  await runNodeProcess(clusterDirectory(name, io.environment), io.signal);
  return exitCodes.ok;
}

/** `ramet local supervise`: what `up` leaves behind. */
export async function localSupervise(io: Io, { name }: { name: string }): Promise<number> {
  await runSupervisorProcess(clusterDirectory(name, io.environment), io.signal);
  return exitCodes.ok;
}
