import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { rollbackRequest } from "../../api/names/rollback-request.ts";
import { RametError } from "../../base/errors.ts";
import { findCondition } from "../../kube/conditions.ts";
import { failureOf } from "../../kube/reported-state.ts";

export type RollbackResult = { object: Sandbox } | { failure: RametError };

/**
 * The result of a requested rollback; undefined while it is pending.
 * @param name that of the sandbox
 * @param sandbox undefined if it was deleted
 * @param digest identifies the request
 */
export function rollbackResult(name: string, sandbox: Sandbox | undefined, digest: string): RollbackResult | undefined {
  if (sandbox === undefined || sandbox.metadata.deletionTimestamp !== undefined) {
    return { failure: new RametError("Conflict", `The sandbox ${name} was deleted during the wait`) };
  }
  if (!isAnswered(sandbox, digest)) return isRequested(sandbox, digest) ? undefined : replaced(name);
  const answer = findCondition(sandbox.status?.conditions, "RolledBack");
  if (answer?.status === "True") return { object: sandbox };
  const what = sandbox.status?.phase === "Failed" ? "failed in its rollback" : "was not rolled back and is unchanged";
  const reported = { status: { phase: "Failed", message: answer?.message, conditions: answer && [answer] } };
  return { failure: failureOf(`The sandbox ${name} ${what}`, reported, "Internal") };
}

function replaced(name: string): RollbackResult {
  const what = `Another rollback of the sandbox ${name} was requested before this one completed`;
  const hint = `See its state with: ramet sandbox get ${name} -o yaml`;
  return { failure: new RametError("Conflict", what, { hint }) };
}

function isRequested(sandbox: Sandbox, digest: string): boolean {
  return rollbackRequest(sandbox)?.digest === digest || sandbox.status?.ramet?.rollback?.request === digest;
}

function isAnswered({ status }: Sandbox, digest: string): boolean {
  const { request, checkpointId } = status?.ramet?.rollback ?? {};
  return request === digest && checkpointId === undefined;
}
