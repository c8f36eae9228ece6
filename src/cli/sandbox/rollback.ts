import type { Cluster } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Io, writeAll } from "../io.ts";
import type { VolumesFlag, WaitFlags } from "../options.ts";
import { sandboxColumns } from "../object/columns.ts";
import { type OutputFormat, renderObject } from "../output/render.ts";
import { platformOf } from "../platform/platform-of.ts";
import { reportError, reportFailure } from "../report-error.ts";

export interface RollbackOptions extends VolumesFlag, WaitFlags {
  name: string;
  /** A Checkpoint's name or id, or a version of a named snapshot. */
  to: string;
  /** `table` prints one sentence. */
  output: OutputFormat;
}

/** `ramet rollback`: rolls a sandbox back, and waits for the result. */
export async function rollBackSandbox(io: Io, cluster: Cluster, options: RollbackOptions): Promise<number> {
  const { name, output } = options;
  const sandbox = await cluster.get(cluster.sandboxes, name);
  const platform = await platformOf(io, cluster);
  const { settled, sentence } = await platform.rollBack(sandbox, {
    ...options,
    timeoutMilliseconds: options.timeout,
    signal: io.signal,
  });
  // A checkpoint that does not exist is a wrong argument, which is noticed only by the controllers.
  if ("failure" in settled && settled.failure.code === "NotFound") return reportError(io, settled.failure, output);
  if ("failure" in settled) return reportFailure(io, settled.failure, output);
  const rendering = { output, columns: sandboxColumns, now: io.clock.now() };
  await writeAll(io.stdout, output === "table" ? `${sentence}\n` : renderObject(settled.object, rendering));
  return exitCodes.ok;
}
