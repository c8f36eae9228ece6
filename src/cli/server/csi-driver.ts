import { pino } from "pino";
import { RametError } from "../../base/errors.ts";
import { runCsiDriver } from "../../local/csi/driver.ts";
import { acquireTools } from "../../local/tools/acquire-tools.ts";
import { csiProtoPath, registrationProtoPath } from "../../local/volumes/local-volumes.ts";
import type { Io } from "../io.ts";
import { packageVersion } from "../package-version.ts";
import { runServer } from "./server-process.ts";

export interface CsiDriverFlags {
  endpoint: string;
  directory: string;
  nodeId: string;
  kubeletDirectory?: string;
  logLevel: string;
}

/** `ramet csi-driver`: serves CSI until it receives a signal. Logs JSON lines to stderr. */
export async function runCsiDriverProcess(io: Io, flags: CsiDriverFlags): Promise<number> {
  const { endpoint, directory, nodeId, kubeletDirectory, logLevel } = flags;
  const log = pino({ name: "csi-driver", level: logLevel }, io.stderr);
  const socket = socketOf(endpoint);
  const protoPath = csiProtoPath();
  const kubelet =
    kubeletDirectory === undefined ? undefined : { directory: kubeletDirectory, protoPath: registrationProtoPath() };
  const version = packageVersion();
  const { clock, signal } = io;
  const { "ramet-link": link } = await acquireTools({ names: ["ramet-link"], clock, signal });
  return runServer(io, log, (stop) =>
    runCsiDriver({ socket, directory, nodeId, link, protoPath, kubelet, version, clock, log }, stop),
  );
}

function socketOf(endpoint: string): string {
  const path = /^unix:(?:\/\/)?(\/[^\0]+)$/.exec(endpoint)?.[1];
  if (path !== undefined) return path;
  throw new RametError("InvalidArgument", `The endpoint ${endpoint} is not a Unix socket`, {
    hint: "Use an address like unix:///run/csi/csi.sock",
  });
}
