import { annotations } from "../../api/names/labels.ts";
import { withCluster, type ClusterOptions } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { printLine, type Io } from "../io.ts";
import { reportFailure } from "../report-error.ts";
import { untilBuilt } from "./until-built.ts";

export interface BuildSnapshotOptions extends ClusterOptions {
  name: string;
  keepOnFailure?: boolean;
  wait: boolean;
  /** Milliseconds; infinite is for ever. */
  timeout: number;
}

/** `ramet snapshot build`: has a build that failed tried again, and follows it. What is built already is no work. */
export async function buildSnapshot(io: Io, options: BuildSnapshotOptions): Promise<number> {
  const { name } = options;
  return withCluster(io, options, async (cluster) => {
    const found = await cluster.get(cluster.snapshots, name, io.signal);
    const request = io.clock.now().toISOString();
    const wished = {
      [annotations.buildRequest]: request,
      [annotations.keepBuilder]: options.keepOnFailure === true ? "true" : null,
    };
    const asked = await cluster.snapshots.mergePatch(
      found.metadata,
      { metadata: { annotations: wished } },
      { signal: io.signal },
    );
    if (!options.wait) {
      printLine(io.stdout, `snapshot ${name} is asked for`);
      return exitCodes.ok;
    }
    const settled = await untilBuilt(io, cluster, asked, { timeoutMilliseconds: options.timeout, request });
    if ("failure" in settled) return reportFailure(io, settled.failure);
    printLine(io.stdout, `snapshot ${name} is at version ${settled.object.status?.version ?? "none"}`);
    return exitCodes.ok;
  });
}
