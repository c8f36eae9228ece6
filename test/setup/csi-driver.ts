import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { systemClock } from "../../src/base/clock.ts";
import { socketAccepts } from "../../src/base/http.ts";
import { type Child, startChild, waitUntilReady } from "../../src/local/control-plane/child.ts";
import { builtPrograms } from "./built-package.ts";

export interface CsiDriver {
  process: Child;
  /** `unix:///…`. */
  endpoint: string;
  /** Its volumes and snapshots. */
  directory: string;
  log: string;
}

export interface CsiDriverSetting {
  nodeId?: string;
  /** The root directory of a kubelet that shall know the driver. */
  kubeletDirectory?: string;
  /** The program and arguments that run a program on its node. @default on this one */
  entering?: ((program: string, args: string[]) => [string, string[]]) | undefined;
}

/** Starts `ramet csi-driver` in a directory, in which an earlier one may have left its volumes. */
export async function startCsiDriver(
  dir: string,
  directory = join(dir, "driver"),
  { nodeId = "node-1", kubeletDirectory, entering = (...all) => all }: CsiDriverSetting = {},
): Promise<CsiDriver> {
  await mkdir(dir, { recursive: true });
  const socket = join(dir, "csi.sock");
  const endpoint = `unix://${socket}`;
  const flags = ["--endpoint", endpoint, "--directory", directory, "--node-id", nodeId, "--log-level", "debug"];
  if (kubeletDirectory !== undefined) flags.push("--kubelet-directory", kubeletDirectory);
  const [ramet, ...before] = builtPrograms.ramet;
  const [program, args] = entering(ramet, [...before, "csi-driver", ...flags]);
  const log = join(dir, "driver.log");
  const child = await startChild({
    program,
    args,
    cwd: dir,
    logPath: log,
    clock: systemClock,
  });
  await waitUntilReady(child, {
    what: "the CSI driver",
    timeoutMilliseconds: 60_000,
    clock: systemClock,
    ready: () => socketAccepts(socket),
  });
  return { process: child, endpoint, directory, log };
}
