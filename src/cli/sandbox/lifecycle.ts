import { RametError } from "../../base/errors.ts";
import { awaitSandbox } from "../../operations/await-sandbox.ts";
import { resumeChange } from "../../operations/pause.ts";
import type { Cluster } from "../cluster/cluster.ts";
import { clusterObjects } from "../cluster/objects.ts";
import { type Io, printLine, writeAll } from "../io.ts";
import { sandboxColumns } from "../object/columns.ts";
import type { VolumesFlag, WaitFlags } from "../options.ts";
import { type OutputFormat, renderObject } from "../output/render.ts";
import { platformOf } from "../platform/platform-of.ts";
import { exitCodes, reportError, reportFailure } from "../report-error.ts";

/** `ramet sandbox pause` and `resume`: sets `spec.paused` and waits until the status matches. */
export async function pauseSandbox(
  io: Io,
  cluster: Cluster,
  { name, paused, ...options }: WaitFlags & { name: string; paused: boolean },
): Promise<number> {
  const objects = clusterObjects(io, cluster);
  const found = await cluster.get(cluster.sandboxes, name);
  const sandbox = await objects.sandboxes.patch(found, paused ? { spec: { paused } } : resumeChange(found));
  if (!options.wait) {
    printLine(io.stdout, `sandbox ${name} is being ${paused ? "paused" : "resumed"}`);
    return exitCodes.ok;
  }
  const settled = await awaitSandbox(objects, sandbox, {
    goal: paused ? "paused" : "serving",
    timeoutMilliseconds: options.timeout,
    signal: io.signal,
  });
  if ("failure" in settled) return reportFailure(io, paused ? withNextStep(settled.failure, name) : settled.failure);
  printLine(io.stdout, `sandbox ${name} ${paused ? "paused" : "resumed"}`);
  return exitCodes.ok;
}

/** A pause is not tried again: its sandbox keeps running until somebody requests another pause. */
function withNextStep(failure: RametError, name: string): RametError {
  if (failure.code === "Conflict") return failure;
  return new RametError(failure.code, failure.message, {
    hint: `Remove the cause, then try again: ramet sandbox resume ${name} && ramet sandbox pause ${name}`,
    cause: failure,
  });
}

interface RollbackOptions extends VolumesFlag, WaitFlags {
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
