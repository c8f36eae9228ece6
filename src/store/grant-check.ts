import type { Clock } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";
import type { Grant } from "../api/cell/grant.ts";
import { checkedRef } from "./checkpoint-id.ts";

/**
 * Refuses with `GrantInvalid` a grant that is for another use or has expired, and with `InvalidArgument` one that names
 * an illegal namespace or id.
 */
export function checkGrant(grant: Grant, access: Grant["access"], clock: Clock): void {
  checkedRef(grant);
  const now = clock.now().getTime();
  if (grant.access !== access) throw otherUse(grant, access);
  if (grant.expiresAt <= now) {
    throw refused(grant, `it expired ${Math.ceil((now - grant.expiresAt) / 1000)} s ago`);
  }
}

export function otherUse(grant: Grant, access: Grant["access"]): RametError {
  return refused(grant, `it allows to ${grant.access}, and the operation has to ${access}`);
}

export function refused(grant: Grant, why: string): RametError {
  return new RametError(
    "GrantInvalid",
    `grant for checkpoint ${grant.namespace}/${grant.checkpointId} is refused: ${why}`,
    {
      hint: "Repeat the operation: each attempt gets a new grant. If it happens again, compare the clocks of the nodes.",
    },
  );
}

/** When a grant of that life ends, in milliseconds since 1970. */
export function expiryOf(clock: Clock, ttlMilliseconds: number): number {
  if (!(ttlMilliseconds > 0)) throw new RametError("InvalidArgument", "grant has no time to live");
  return Math.ceil(clock.now().getTime() + ttlMilliseconds);
}
