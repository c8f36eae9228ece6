import { RametError } from "../../base/errors.ts";
import { clusterDirectory, defaultClusterName } from "../../local/cluster-directory.ts";
import { logParts, sendPartLog, type LogPart } from "../../local/log-files.ts";
import { exitCodes } from "../exit-codes.ts";
import type { Io } from "../io.ts";

export interface LogsOptions {
  part: LogPart;
  name?: string;
  follow?: boolean;
}

/** `ramet local logs [part]`. */
export async function localLogs(
  io: Io,
  { part, name = defaultClusterName, follow = false }: LogsOptions,
): Promise<number> {
  if (!logParts.includes(part)) {
    throw new RametError("InvalidArgument", `Reading a log failed: a local cluster has no part "${part}"`, {
      hint: `Use one of ${logParts.join(", ")}`,
    });
  }
  await sendPartLog(clusterDirectory(name, io.environment), io.stdout, { part, follow, signal: io.signal });
  return exitCodes.ok;
}
