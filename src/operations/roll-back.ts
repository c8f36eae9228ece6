import { randomUUID } from "node:crypto";
import type { Sandbox } from "../api/kinds/sandbox.ts";
import { annotations } from "../api/names/labels.ts";
import { rollbackRequest } from "../api/names/rollback-request.ts";
import { RametError } from "../base/errors.ts";
import { conditionOf } from "../api/state/problem.ts";
import { missingPart } from "../api/state/sandbox.ts";
import { describeState, failureOf } from "../kube/conditions.ts";
import type { Objects, Settled, Wait, Watched } from "./objects.ts";

/**
 * Requests that a checkpoint is restored in a sandbox, in place.
 * @param to the id of a checkpoint or a named snapshot
 * @param others further annotations of the request
 * @param requestId a repeat of the same request is the same rollback. Default: a new one
 */
export function requestRollback(
  { sandboxes }: Pick<Objects, "sandboxes">,
  sandbox: Sandbox,
  { to, others = {}, requestId = randomUUID() }: { to: string; others?: Record<string, string>; requestId?: string },
  signal: AbortSignal,
): Promise<Sandbox> {
  const request = { ...others, [annotations.rollbackTo]: to, [annotations.rollbackRequest]: requestId };
  return sandboxes.patch(sandbox, { metadata: { annotations: request } }, signal);
}

/**
 * Waits until a rollback has succeeded, failed, was rejected, or was replaced by another request.
 * @param requested the sandbox with the request, whose id the status reports back
 * @throws RametError `Timeout` or `Canceled`
 */
export function untilRolledBack(
  { sandboxes }: { sandboxes: Watched<Sandbox> },
  requested: Sandbox,
  wait: Wait,
): Promise<Settled<Sandbox>> {
  const { name } = requested.metadata;
  const digest = rollbackRequest(requested)?.digest ?? "";
  const until = (sandbox: Sandbox | undefined) => rollbackResult(name, sandbox, digest);
  return sandboxes.follow(requested, {
    what: `the rollback of the sandbox ${name}`,
    until,
    describe: (sandbox) => (until(sandbox) === undefined ? describeProgress(sandbox) : describeState(sandbox)),
    ...wait,
  });
}

/** While the rollback is pending or running, its message is more specific than the phase. */
function describeProgress(sandbox: Sandbox | undefined): string {
  const condition = sandbox && conditionOf(sandbox, "RolledBack");
  if (condition?.reason !== "Pending") return describeState(sandbox);
  return `${sandbox?.status?.phase ?? ""}: ${condition.message}`;
}

/** The result of a requested rollback; undefined while it is pending. @param digest identifies the request */
function rollbackResult(name: string, sandbox: Sandbox | undefined, digest: string): Settled<Sandbox> | undefined {
  if (sandbox === undefined || sandbox.metadata.deletionTimestamp !== undefined) {
    return { failure: new RametError("Conflict", `The sandbox ${name} was deleted during the wait`) };
  }
  if (!isAnswered(sandbox, digest)) return isRequested(sandbox, digest) ? undefined : replaced(name);
  const answer = conditionOf(sandbox, "RolledBack");
  if (answer?.status !== "True") return { failure: rejected(sandbox) };
  // A program that has started again takes its time until its probes succeed.
  return isStarting(sandbox) ? undefined : { object: sandbox };
}

function rejected(sandbox: Sandbox): RametError {
  const { metadata, status } = sandbox;
  const what = status?.phase === "Failed" ? "failed in its rollback" : "was not rolled back and is unchanged";
  return failureOf(`The sandbox ${metadata.name} ${what}`, sandbox, "Internal", "RolledBack");
}

function isStarting(sandbox: Sandbox): boolean {
  return sandbox.status?.phase === "Running" && missingPart(sandbox) !== undefined;
}

function replaced(name: string): Settled<Sandbox> {
  const what = `Another rollback of the sandbox ${name} was requested before this one completed`;
  const hint = `Find out why with: ramet explain sandbox/${name}`;
  return { failure: new RametError("Conflict", what, { hint }) };
}

function isRequested(sandbox: Sandbox, digest: string): boolean {
  return rollbackRequest(sandbox)?.digest === digest || sandbox.status?.ramet?.rollback?.request === digest;
}

function isAnswered({ status }: Sandbox, digest: string): boolean {
  const { request, checkpointId } = status?.ramet?.rollback ?? {};
  return request === digest && checkpointId === undefined;
}
