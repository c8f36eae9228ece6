import type { Clock } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";
import type { Grant } from "../api/wire/grant.ts";
import { checkedRef } from "./checkpoint-id.ts";

/**
 * Checks that a grant is for this access and has not expired.
 * @throws RametError `GrantInvalid`; `InvalidArgument` for an invalid namespace or id
 */
export function checkGrant(grant: Grant, access: Grant["access"], clock: Clock): void {
  checkedRef(grant);
  const now = clock.now().getTime();
  if (grant.access !== access) throw wrongAccess(grant, access);
  if (grant.expiresAt <= now) {
    throw invalidGrant(grant, `it expired ${Math.ceil((now - grant.expiresAt) / 1000)} s ago`);
  }
}

export function wrongAccess(grant: Grant, access: Grant["access"]): RametError {
  return invalidGrant(grant, `it allows ${grant.access} access, but the operation needs ${access} access`);
}

export function invalidGrant(grant: Grant, why: string): RametError {
  const what = `the grant for checkpoint ${grant.namespace}/${grant.checkpointId} is not valid: ${why}`;
  return new RametError("GrantInvalid", what, {
    hint: "Repeat the operation, which creates a new grant; if that fails too, compare the clocks of the nodes",
  });
}

/** Returns the expiry of a new grant in milliseconds since 1970. */
export function expiryOf(clock: Clock, ttlMilliseconds: number): number {
  if (!(ttlMilliseconds > 0)) throw new RametError("InvalidArgument", "the lifetime of a grant must be positive");
  return Math.ceil(clock.now().getTime() + ttlMilliseconds);
}
