import { randomUUID } from "node:crypto";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations } from "../../api/names/labels.ts";
import { rollbackRequest } from "../../api/names/rollback-request.ts";
import { RametError } from "../../base/errors.ts";
import { rollbackResult } from "../../client-api/service/rollback-result.ts";
import { findCondition } from "../../kube/conditions.ts";
import { describeState } from "../../kube/reported-state.ts";
import { isBeside, refuseSharedVolumes } from "../beside/clone.ts";
import { checkpointReference } from "../checkpoint/reference.ts";
import { type Cluster, type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Io, writeAll } from "../io.ts";
import { volumesAnnotation, type VolumesFlag } from "../options.ts";
import { sandboxColumns } from "../object/columns.ts";
import { type OutputFormat, renderObject } from "../output/render.ts";
import { reportError, reportFailure } from "../report-error.ts";
import { followRequest, type Settled } from "../wait/follow.ts";
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
    const { metadata } = await cluster.get(cluster.sandboxes, name, io.signal);
    if (await isBeside(cluster, io.signal)) return replaceSandbox(io, cluster, options);
    const to = await checkpointReference(cluster, options.to, io.signal);
    const request = {
      ...volumesAnnotation(options),
      [annotations.rollbackTo]: to,
      [annotations.rollbackRequest]: randomUUID(),
    };
    // Do not roll back another sandbox that was created with the same name meanwhile.
    const body = { metadata: { uid: metadata.uid, annotations: request } };
    const sandbox = await cluster.sandboxes.mergePatch(metadata, body, { signal: io.signal });
    const settled = options.wait
      ? await untilRolledBack(io, cluster, { sandbox, timeoutMilliseconds: options.timeout })
      : { object: sandbox };
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

interface RollbackWait {
  /** The annotations of the request, whose id the status reports back. */
  sandbox: Sandbox;
  timeoutMilliseconds: number;
}

/**
 * Waits until a rollback has succeeded, failed, was rejected, or was replaced by another request.
 *
 * @throws RametError `Timeout` or `Canceled`
 */
async function untilRolledBack(io: Io, cluster: Cluster, wait: RollbackWait): Promise<Settled<Sandbox>> {
  const { name } = wait.sandbox.metadata;
  const digest = rollbackRequest(wait.sandbox)?.digest ?? "";
  const resultOf = (sandbox: Sandbox | undefined) => rollbackResult(name, sandbox, digest);
  const last = await followRequest(io, {
    resource: cluster.sandboxes,
    from: wait.sandbox,
    noun: "sandbox",
    what: `the rollback of the sandbox ${name}`,
    timeoutMilliseconds: wait.timeoutMilliseconds,
    isOver: (sandbox) => resultOf(sandbox) !== undefined,
    describe: (sandbox) => (resultOf(sandbox) === undefined ? describeProgress(sandbox) : describeState(sandbox)),
  });
  return resultOf(last) ?? { failure: new RametError("Internal", `The rollback of the sandbox ${name} has no result`) };
}

/** While the rollback is pending or running, its message is more specific than the phase. */
function describeProgress(sandbox: Sandbox | undefined): string {
  const condition = findCondition(sandbox?.status?.conditions, "RolledBack");
  if (condition?.reason !== "Pending") return describeState(sandbox);
  return `${sandbox?.status?.phase ?? ""}: ${condition.message}`;
}
