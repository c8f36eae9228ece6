import type { SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { initRequestDigest } from "../../api/names/init-request.ts";
import { annotations, restoreFrom, restoreFromAnnotations } from "../../api/names/labels.ts";
import { rollbackRequest, isRollbackPending } from "../../api/names/rollback-request.ts";
import type { ClaimRequest } from "../../claim/request.ts";
import { findCondition, isConditionTrue } from "../../kube/conditions.ts";
import type { MemberProgress } from "./state.ts";

/**
 * Whether a claimed sandbox is ready for use.
 * @param hasEgress whether its cell has the egress policy of its levels, which the claim's annotations are part of
 */
export function progressOf(
  sandbox: Sandbox,
  hasEgress: boolean,
  waitReadyMilliseconds: number,
  now: Date,
): MemberProgress {
  const { metadata, status } = sandbox;
  const endedBecause = ended(sandbox);
  if (endedBecause !== undefined) return { is: "failed", why: endedBecause };
  const missing = missingPart(sandbox, hasEgress);
  if (missing === undefined) return { is: "ready" };
  const since = new Date(metadata.annotations?.[annotations.claimTimestamp] ?? metadata.creationTimestamp);
  const until = new Date(since.getTime() + waitReadyMilliseconds);
  const report = status?.message ?? findCondition(status?.conditions, "Ready")?.message ?? "";
  const why = report === "" ? missing : `${missing}: ${report}`;
  if (until > now) return { is: "waiting", until, why };
  return { is: "failed", why: `after ${waitReadyMilliseconds / 1000} s (spec.waitReadyTimeout) ${why}` };
}

function ended(sandbox: Sandbox): string | undefined {
  const { metadata, status } = sandbox;
  if (metadata.deletionTimestamp !== undefined) return "it was deleted";
  if (status?.phase === "Failed" || status?.phase === "Succeeded") {
    return `it is ${status.phase}${status.message === undefined ? "" : `: ${status.message}`}`;
  }
  return rejectedByGuest(sandbox) ?? rejectedByCell(sandbox) ?? rejectedEgress(sandbox);
}

function rejectedByGuest({ status }: Sandbox): string | undefined {
  const initialized = findCondition(status?.conditions, "RuntimeInitialized");
  if (initialized?.status !== "False" || initialized.reason !== "Failed") return undefined;
  return `its guest rejected the environment: ${initialized.message}`;
}

function rejectedEgress({ status }: Sandbox): string | undefined {
  const applied = findCondition(status?.conditions, "EgressApplied");
  return applied?.status === "False" && applied.reason === "InvalidArgument" ? applied.message : undefined;
}

function rejectedByCell(sandbox: Sandbox): string | undefined {
  if (rollbackRequest(sandbox) === undefined || isRollbackPending(sandbox)) return undefined;
  // Memory of another engine is restored in another Pod.
  if (sandbox.status?.phase === "Resuming") return undefined;
  const rolledBack = findCondition(sandbox.status?.conditions, "RolledBack");
  return rolledBack?.status === "False" ? `restoring the checkpoint failed: ${rolledBack.message}` : undefined;
}

function missingPart(sandbox: Sandbox, hasEgress: boolean): string | undefined {
  const { status } = sandbox;
  // Its user has paused it.
  if (status?.phase === "Paused") return undefined;
  if (status?.phase !== "Running" || !isConditionTrue(status.conditions, "Ready")) return "it is not ready";
  if (!hasEgress) return "its egress rules are not in effect yet";
  if (isRollbackPending(sandbox)) return "the checkpoint is not restored yet";
  const request = initRequestDigest(sandbox);
  return request === undefined || request === status.ramet?.initRequest
    ? undefined
    : "its guest does not have the environment yet";
}

/**
 * The request for each sandbox of a claim. An annotation `restore-from` of the claim is restored in place, as the sandbox is
 * running already.
 * @throws RametError `InvalidArgument` when two of these annotations differ
 */
export function claimRequest({ metadata, spec }: SandboxClaim): Omit<ClaimRequest, "lock" | "timeoutMilliseconds"> {
  const { labels: own, annotations: notes = {}, envVars, shutdownTime } = spec;
  const from = restoreFrom({ metadata: { annotations: notes }, spec: {} });
  const annotations = Object.fromEntries(Object.entries(notes).filter(([key]) => !isRestoreFrom(key)));
  return {
    namespace: metadata.namespace,
    set: spec.templateName,
    owner: metadata.uid,
    claimName: metadata.name,
    createOnNoStock: spec.createOnNoStock,
    annotations,
    ...(own && { labels: own }),
    ...(envVars && !spec.skipInitRuntime && { environment: envVars }),
    ...(from !== undefined && { restoreFrom: from }),
    ...(shutdownTime !== undefined && { shutdownTime }),
  };
}

function isRestoreFrom(key: string): boolean {
  return (restoreFromAnnotations as readonly string[]).includes(key);
}
