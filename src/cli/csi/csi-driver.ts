import { join } from "node:path";
import { pino } from "pino";
import { runCsiDriver } from "../../csi/driver.ts";
import { acquireTools } from "../../local/tools/acquire-tools.ts";
import { packageRoot } from "../../local/tools/tool.ts";
import type { Io } from "../io.ts";
import { packageVersion } from "../package-version.ts";
import { runServer } from "../server/server-process.ts";

export interface CsiDriverFlags {
  endpoint: string;
  directory: string;
  nodeId: string;
  logLevel: string;
}

/** `ramet csi-driver`: serves CSI until it receives a signal. Logs JSON lines to stderr. */
export async function runCsiDriverProcess(io: Io, flags: CsiDriverFlags): Promise<number> {
  const { endpoint, directory, nodeId, logLevel } = flags;
  const log = pino({ name: "csi-driver", level: logLevel }, io.stderr);
  const protoPath = join(packageRoot(), "proto", "csi.proto");
  const version = packageVersion();
  const { clock, signal } = io;
  const { "ramet-link": link } = await acquireTools({ names: ["ramet-link"], clock, signal });
  return runServer(io, log, (stop) =>
    runCsiDriver({ endpoint, directory, nodeId, link, protoPath, version, clock, log }, stop),
  );
}
