import * as z from "zod";
import type { Grant } from "../api/wire/grant.ts";
import type { Clock } from "../base/clock.ts";
import { RametError } from "../base/errors.ts";

/** A Kubernetes namespace: a DNS label. A directory store uses it as a path component, so it must not leave the root. */
export const NamespaceName = z
  .string()
  .max(63)
  .regex(/^[a-z0-9]([-a-z0-9]*[a-z0-9])?$/, "must be a DNS label");

/**
 * A checkpoint's id: lower-case letters, digits, `-` and `.`, with a letter or digit at both ends. At most 200 characters, so
 * that it fits into a file name together with the prefixes and suffixes of the drivers.
 */
export const CheckpointId = z
  .string()
  .max(200)
  .regex(/^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$/, "must consist of lower-case letters, digits, '-' and '.'");

/** Identifies one checkpoint in a store. Ids are unique only within a namespace. */
export interface CheckpointRef {
  namespace: string;
  checkpointId: string;
}

/** Validates both names. @throws RametError `InvalidArgument` */
export function checkedRef(ref: CheckpointRef): CheckpointRef {
  return { namespace: checkedNamespace(ref.namespace), checkpointId: checkedId(ref.checkpointId) };
}

export function checkedNamespace(namespace: string): string {
  return checked(NamespaceName, namespace, "namespace");
}

function checkedId(checkpointId: string): string {
  return checked(CheckpointId, checkpointId, "checkpointId");
}

function checked(schema: z.ZodType<string>, value: string, field: string): string {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw new RametError(
    "InvalidArgument",
    `${field} ${JSON.stringify(value)} is not valid: ${result.error.issues[0]?.message ?? "unknown"}`,
  );
}

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
