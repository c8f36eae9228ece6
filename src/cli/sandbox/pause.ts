import { withCluster, type ClusterOptions } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { printLine, type Io } from "../io.ts";
import { reportFailure } from "../report-error.ts";
import { isPaused, untilReady } from "./until-ready.ts";

export interface PauseOptions extends ClusterOptions {
  name: string;
  /** True pauses, false resumes. */
  paused: boolean;
  wait: boolean;
  /** Milliseconds; `Infinity` waits forever. */
  timeout: number;
}

/** `ramet sandbox pause` and `resume`: sets `spec.paused` and waits until the status matches. */
export async function pauseSandbox(io: Io, options: PauseOptions): Promise<number> {
  const { name, paused } = options;
  return withCluster(io, options, async (cluster) => {
    const found = await cluster.get(cluster.sandboxes, name, io.signal);
    const sandbox = await cluster.sandboxes.mergePatch(found.metadata, { spec: { paused } }, { signal: io.signal });
    if (!options.wait) {
      printLine(io.stdout, `sandbox ${name} is being ${paused ? "paused" : "resumed"}`);
      return exitCodes.ok;
    }
    const settled = await untilReady(io, cluster, {
      sandbox,
      timeoutMilliseconds: options.timeout,
      ...(paused ? { isReached: isPaused } : {}),
    });
    if ("failure" in settled) return reportFailure(io, settled.failure);
    printLine(io.stdout, `sandbox ${name} ${paused ? "paused" : "resumed"}`);
    return exitCodes.ok;
  });
}
