import type { Sandbox } from "../../api/kinds/sandbox.ts";
import { credentialsDigest } from "../../api/credentials/credentials.ts";
import type { Condition } from "../../api/schema/metadata.ts";
import { requestedEgress } from "../../api/egress/effective-egress.ts";
import { initRequestDigest } from "../../api/names/init-request.ts";
import { rollbackRequest, isRollbackPending } from "../../api/names/rollback-request.ts";
import { findCondition, isConditionTrue } from "../../kube/conditions.ts";

/** Why a claimed or created sandbox will not serve; undefined if it may. */
export function ended(sandbox: Sandbox): string | undefined {
  const { metadata, status } = sandbox;
  if (metadata.deletionTimestamp !== undefined) return "it was deleted";
  if (status?.phase === "Failed" || status?.phase === "Succeeded") {
    return `it is ${status.phase}${status.message === undefined ? "" : `: ${status.message}`}`;
  }
  return rejectedByGuest(sandbox) ?? rejectedByCell(sandbox) ?? rejectedRules(sandbox);
}

/** What the sandbox waits for before it serves its client; undefined: nothing. */
export function missingPart(sandbox: Sandbox): string | undefined {
  const { status } = sandbox;
  // Its user has paused it.
  if (status?.phase === "Paused") return undefined;
  if (status?.phase !== "Running" || !isConditionTrue(status.conditions, "Ready")) return "it is not ready";
  if (isRollbackPending(sandbox)) return "the checkpoint is not restored yet";
  return missingSetting(sandbox);
}

function missingSetting(sandbox: Sandbox): string | undefined {
  const ramet = sandbox.status?.ramet;
  // Other controllers do not report it.
  if (ramet === undefined) return undefined;
  const { initRequest, egressRequest, credentials: given } = ramet;
  const request = initRequestDigest(sandbox);
  if (request !== undefined && request !== initRequest) return "its guest does not have the environment yet";
  if (requestedEgress(sandbox.metadata) !== egressRequest) return "its egress rules are not in effect yet";
  if (credentialsDigest(sandbox.metadata) !== given) return "its credentials are not in effect yet";
  return undefined;
}

function rejectedByGuest({ status }: Sandbox): string | undefined {
  const initialized = findCondition(status?.conditions, "RuntimeInitialized");
  if (initialized?.status !== "False" || initialized.reason !== "Failed") return undefined;
  return `its guest rejected the environment: ${initialized.message}`;
}

function rejectedRules(sandbox: Sandbox): string | undefined {
  return unappliedRules(sandbox).find(({ reason }) => reason === "InvalidArgument")?.message;
}

/** The conditions that report egress rules or credentials which the cell does not have. */
export function unappliedRules({ status }: Pick<Sandbox, "status">): Condition[] {
  return ["EgressApplied", "CredentialsApplied"].flatMap((type) => {
    const condition = findCondition(status?.conditions, type);
    return condition?.status === "False" ? [condition] : [];
  });
}

function rejectedByCell(sandbox: Sandbox): string | undefined {
  if (rollbackRequest(sandbox) === undefined || isRollbackPending(sandbox)) return undefined;
  // Memory of another engine is restored in another Pod.
  if (sandbox.status?.phase === "Resuming") return undefined;
  const rolledBack = findCondition(sandbox.status?.conditions, "RolledBack");
  return rolledBack?.status === "False" ? `restoring the checkpoint failed: ${rolledBack.message}` : undefined;
}
