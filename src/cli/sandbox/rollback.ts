import { randomUUID } from "node:crypto";
import { RametError } from "../../base/errors.ts";
import { annotations } from "../../api/names/labels.ts";
import { checkpointReference } from "../checkpoint/reference.ts";
import { withCluster, type ClusterOptions } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { writeAll, type Io } from "../io.ts";
import { renderObject, type OutputFormat } from "../output/render.ts";
import { reportFailure } from "../report-error.ts";
import { sandboxColumns } from "./columns.ts";
import { untilRolledBack } from "./until-rolled-back.ts";

export interface RollbackOptions extends ClusterOptions {
  name: string;
  /** A Checkpoint's name or id, or a version of a named snapshot. */
  to: string;
  wait: boolean;
  /** Milliseconds; infinite is for ever. */
  timeout: number;
  /** `table` prints a sentence. */
  output: OutputFormat;
}

/** `ramet rollback`: asks for it by the sandbox's annotations, each time anew, and waits for the answer. */
export async function rollBackSandbox(io: Io, options: RollbackOptions): Promise<number> {
  const { name, output } = options;
  return withCluster(io, options, async (cluster) => {
    const { metadata, status } = await cluster.get(cluster.sandboxes, name, io.signal);
    if (status?.phase === "Paused") throw isPaused(name);
    const to = await checkpointReference(cluster, options.to, io.signal);
    const wish = { [annotations.rollbackTo]: to, [annotations.rollbackRequest]: randomUUID() };
    // Another sandbox of that name, made meanwhile, is not meant.
    const body = { metadata: { uid: metadata.uid, annotations: wish } };
    const sandbox = await cluster.sandboxes.mergePatch(metadata, body, { signal: io.signal });
    const settled = options.wait
      ? await untilRolledBack(io, cluster, { sandbox, timeoutMilliseconds: options.timeout })
      : { object: sandbox };
    if ("failure" in settled) return reportFailure(io, settled.failure, output);
    const sentence = `sandbox ${name} ${options.wait ? "rolled back" : "is being rolled back"} to ${to}\n`;
    const rendering = { output, columns: sandboxColumns, now: io.clock.now() };
    await writeAll(io.stdout, output === "table" ? sentence : renderObject(settled.object, rendering));
    return exitCodes.ok;
  });
}

function isPaused(name: string): RametError {
  return new RametError("SandboxNotReady", `The sandbox ${name} is paused, and a paused sandbox is not rolled back`, {
    hint: `Bring it back first, with: ramet sandbox resume ${name}`,
  });
}
