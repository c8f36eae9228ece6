import { RametError } from "../../base/errors.ts";
import { errorCodes, type ErrorCode } from "../../base/error-codes.ts";
import type { SandboxClaim } from "../../api/kinds/sandbox-claim.ts";
import { findCondition } from "../../kube/conditions.ts";

/** Why a completed claim has fewer sandboxes than it asked for; undefined when it has them all. */
export function shortfall({ metadata, spec, status }: SandboxClaim): RametError | undefined {
  if ((status?.claimedReplicas ?? 0) >= spec.replicas) return undefined;
  const reason = findCondition(status?.conditions, "Completed")?.reason ?? "";
  return new RametError(codeOf(reason), `The claim ${metadata.name} has ${status?.message ?? "claimed nothing"}`);
}

function codeOf(reason: string): ErrorCode {
  if (reason === "TimeoutReached") return "Timeout";
  if (reason === "SandboxSetNotFound") return "NotFound";
  return Object.hasOwn(errorCodes, reason) ? (reason as ErrorCode) : "Internal";
}
