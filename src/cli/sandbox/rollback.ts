import { requestRollback, untilRolledBack } from "../../operations/roll-back.ts";
import { isBeside, refuseSharedVolumes } from "../beside/clone.ts";
import { checkpointReference } from "../checkpoint/reference.ts";
import { type Cluster, type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { clusterObjects } from "../cluster/objects.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Io, writeAll } from "../io.ts";
import { volumesAnnotation, type VolumesFlag } from "../options.ts";
import { sandboxColumns } from "../object/columns.ts";
import { type OutputFormat, renderObject } from "../output/render.ts";
import { reportError, reportFailure } from "../report-error.ts";
import { rollBackBeside } from "./roll-back-beside.ts";

export interface RollbackOptions extends ClusterOptions, VolumesFlag {
  name: string;
  /** A Checkpoint's name or id, or a version of a named snapshot. */
  to: string;
  wait: boolean;
  /** Milliseconds; `Infinity` waits forever. */
  timeout: number;
  /** `table` prints one sentence. */
  output: OutputFormat;
}

/** `ramet rollback`: requests a rollback through the sandbox's annotations, and waits for its result. */
export async function rollBackSandbox(io: Io, options: RollbackOptions): Promise<number> {
  const { name, output } = options;
  return withCluster(io, options, async (cluster) => {
    const sandbox = await cluster.get(cluster.sandboxes, name, io.signal);
    if (await isBeside(cluster, io.signal)) return replaceSandbox(io, cluster, options);
    const to = await checkpointReference(cluster, options.to, io.signal);
    const objects = clusterObjects(io, cluster);
    const { signal } = io;
    const requested = await requestRollback(objects, sandbox, { to, others: volumesAnnotation(options) }, signal);
    const settled = options.wait
      ? await untilRolledBack(objects, requested, { timeoutMilliseconds: options.timeout, signal })
      : { object: requested };
    // A checkpoint that does not exist is a wrong argument, which is noticed only by the controllers.
    if ("failure" in settled && settled.failure.code === "NotFound") return reportError(io, settled.failure, output);
    if ("failure" in settled) return reportFailure(io, settled.failure, output);
    const sentence = `sandbox ${name} ${options.wait ? "rolled back" : "is being rolled back"} to ${to}\n`;
    const rendering = { output, columns: sandboxColumns, now: io.clock.now() };
    await writeAll(io.stdout, output === "table" ? sentence : renderObject(settled.object, rendering));
    return exitCodes.ok;
  });
}

/** Prints the name of the clone, which other controllers need to be another one. */
async function replaceSandbox(io: Io, cluster: Cluster, options: RollbackOptions): Promise<number> {
  const { name, to, wait, timeout: timeoutMilliseconds, output } = options;
  refuseSharedVolumes(options);
  const sandbox = await cluster.get(cluster.sandboxes, name, io.signal);
  const settled = await rollBackBeside(io, cluster, { sandbox, to, wait, timeoutMilliseconds });
  if ("failure" in settled) return reportFailure(io, settled.failure, output);
  const sentence = `sandbox ${settled.object.metadata.name} replaces ${name}, rolled back to ${to}\n`;
  const rendering = { output, columns: sandboxColumns, now: io.clock.now() };
  await writeAll(io.stdout, output === "table" ? sentence : renderObject(settled.object, rendering));
  return exitCodes.ok;
}
