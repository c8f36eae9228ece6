import { randomUUID } from "node:crypto";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { annotations } from "../../api/names/labels.ts";
import { rollbackRequest } from "../../api/names/rollback-request.ts";
import { RametError } from "../../base/errors.ts";
import { findCondition } from "../../kube/conditions.ts";
import { checkpointReference } from "../checkpoint/reference.ts";
import { type Cluster, type ClusterOptions, withCluster } from "../cluster/cluster.ts";
import { exitCodes } from "../exit-codes.ts";
import { type Io, writeAll } from "../io.ts";
import { sandboxColumns } from "../object/columns.ts";
import { type OutputFormat, renderObject } from "../output/render.ts";
import { reportFailure } from "../report-error.ts";
import { describeState, failureOf, followRequest, type Settled } from "../wait/follow.ts";

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

interface RollbackWait {
  /** With the wish that is waited for in its annotations. */
  sandbox: Sandbox;
  timeoutMilliseconds: number;
}

/**
 * Waits until a rollback is answered: it has succeeded, was refused, has failed, or another one was asked for.
 *
 * @throws RametError `Timeout` or `Canceled`
 */
async function untilRolledBack(io: Io, cluster: Cluster, wait: RollbackWait): Promise<Settled<Sandbox>> {
  const { name } = wait.sandbox.metadata;
  const digest = rollbackRequest(wait.sandbox)?.digest ?? "";
  const last = await followRequest(io, {
    resource: cluster.sandboxes,
    from: wait.sandbox,
    noun: "sandbox",
    what: `the rollback of the sandbox ${name}`,
    timeoutMilliseconds: wait.timeoutMilliseconds,
    isOver: (sandbox) => isGoing(sandbox) || isAnswered(sandbox, digest) || !isAsked(sandbox, digest),
    describe: (sandbox) => describeProgress(sandbox, digest),
  });
  return settled(name, last, digest);
}

function settled(name: string, sandbox: Sandbox | undefined, digest: string): Settled<Sandbox> {
  if (sandbox === undefined || isGoing(sandbox)) {
    return { failure: new RametError("Conflict", `The sandbox ${name} was removed while it was waited for`) };
  }
  if (!isAnswered(sandbox, digest)) {
    const what = `Another rollback of the sandbox ${name} was asked for before this one was answered`;
    return { failure: new RametError("Conflict", what, { hint: `Look with: ramet sandbox get ${name} -o yaml` }) };
  }
  const answer = findCondition(sandbox.status?.conditions, "RolledBack");
  if (answer?.status === "True") return { object: sandbox };
  const what = sandbox.status?.phase === "Failed" ? "failed in its rollback" : "was not rolled back, and is as it was";
  const told = { status: { phase: "Failed", message: answer?.message, conditions: answer && [answer] } };
  return { failure: failureOf(`The sandbox ${name} ${what}`, told, "Internal") };
}

function isGoing({ metadata }: Sandbox): boolean {
  return metadata.deletionTimestamp !== undefined;
}

function isAsked(sandbox: Sandbox, digest: string): boolean {
  return rollbackRequest(sandbox)?.digest === digest || sandbox.status?.ramet?.rollback?.request === digest;
}

function isAnswered({ status }: Sandbox, digest: string): boolean {
  const { request, checkpointId } = status?.ramet?.rollback ?? {};
  return request === digest && checkpointId === undefined;
}

/** While it waits or is under way, what is said of the rollback says more than the phase. */
function describeProgress(sandbox: Sandbox | undefined, digest: string): string {
  if (sandbox === undefined || isAnswered(sandbox, digest)) return describeState(sandbox);
  const told = findCondition(sandbox.status?.conditions, "RolledBack");
  if (told?.reason !== "Pending") return describeState(sandbox);
  return `${sandbox.status?.phase ?? ""}: ${told.message}`;
}
