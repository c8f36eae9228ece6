import { createHash } from "node:crypto";
import { annotations } from "./labels.ts";

export interface RollbackRequest {
  /** A checkpoint id, or a named snapshot: `python`, `python@7`, `python@sha256:…`. */
  to: string;
  /** Identifies the request by 16 hex digits. */
  digest: string;
}

interface MaybeRequested {
  metadata: { annotations?: Record<string, string> | undefined };
}

interface MaybeAnswered extends MaybeRequested {
  status?: { ramet?: { rollback?: { request?: string | undefined } | undefined } | undefined } | undefined;
}

/** The rollback that the annotations of a Sandbox request, whether done or not; undefined without one. */
export function rollbackRequest({ metadata }: MaybeRequested): RollbackRequest | undefined {
  const to = metadata.annotations?.[annotations.rollbackTo];
  if (to === undefined || to === "") return undefined;
  const again = metadata.annotations?.[annotations.rollbackRequest] ?? "";
  const digest = createHash("sha256")
    .update(JSON.stringify([to, again]))
    .digest("hex");
  return { to, digest: digest.slice(0, 16) };
}

/** Whether a rollback is requested that has no result yet. */
export function isRollbackPending(sandbox: MaybeAnswered): boolean {
  const request = rollbackRequest(sandbox);
  return request !== undefined && request.digest !== sandbox.status?.ramet?.rollback?.request;
}

/** The digest of a requested rollback that has no result yet. */
export function pendingRollback(sandbox: MaybeAnswered): string | undefined {
  return isRollbackPending(sandbox) ? rollbackRequest(sandbox)?.digest : undefined;
}
