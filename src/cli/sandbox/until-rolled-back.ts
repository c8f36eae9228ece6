import { RametError } from "../../base/errors.ts";
import { rollbackRequest } from "../../api/names/rollback-request.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { findCondition } from "../../kube/conditions.ts";
import type { Cluster } from "../cluster/cluster.ts";
import type { Io } from "../io.ts";
import { followWish } from "../wait/follow-request.ts";
import { describeState, failureOf, type Settled } from "../wait/outcome.ts";

export interface RollbackWait {
  /** With the wish that is waited for in its annotations. */
  sandbox: Sandbox;
  timeoutMilliseconds: number;
}

/**
 * Waits until a rollback is answered: it has succeeded, was refused, has failed, or another one was asked for.
 *
 * @throws RametError `Timeout` or `Canceled`
 */
export async function untilRolledBack(io: Io, cluster: Cluster, wait: RollbackWait): Promise<Settled<Sandbox>> {
  const { name } = wait.sandbox.metadata;
  const digest = rollbackRequest(wait.sandbox)?.digest ?? "";
  const last = await followWish(io, {
    ...{
      resource: cluster.sandboxes,
      from: wait.sandbox,
      noun: "sandbox",
      what: `the rollback of the sandbox ${name}`,
    },
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
