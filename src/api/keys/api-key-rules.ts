import { RametError } from "../../base/errors.ts";
import { quantityToBytes } from "../../base/quantity.ts";
import { equalSecrets } from "../../base/authenticated-encryption.ts";
import { type ApiKey, type ApiKeySpec, mostDigests } from "../kinds/api-key.ts";
import { defaultKeyLimits } from "../schema/default-key-limits.ts";

type KeyDigest = ApiKeySpec["digests"][number];

/** One of the values of a key. A rotation makes the others expire. */
export interface KeyValue {
  /** The key, as `<namespace>/<name>`. */
  key: string;
  digest: string;
}

/** Whether an ApiKey accepts the text with this digest at this time. */
export function acceptsDigest({ digests }: Pick<ApiKeySpec, "digests">, digest: string, now: Date): boolean {
  return unexpired(digests, now).some(({ digest: own }) => equalSecrets(own, digest));
}

/** The digests that are accepted at this time. */
export function unexpired(digests: readonly KeyDigest[], now: Date): KeyDigest[] {
  return digests.filter(({ expiresAt }) => expiresAt === undefined || isAfter(expiresAt, now));
}

/** The last time at which one of the digests expires; undefined if none does. */
export function lastExpiry(digests: readonly KeyDigest[]): string | undefined {
  const ends = digests.flatMap(({ expiresAt }) => expiresAt ?? []);
  return ends.sort((a, b) => milliseconds(a) - milliseconds(b)).at(-1);
}

/** The time at which the value with this digest expires, in milliseconds since 1970. `Infinity`: never. */
export function expiryOf({ digests }: Pick<ApiKeySpec, "digests">, digest: string): number {
  const ends = digests
    .filter((own) => own.digest === digest)
    .map(({ expiresAt }) => (expiresAt === undefined ? Infinity : milliseconds(expiresAt)));
  return Math.max(...ends);
}

/** A time that cannot be read has passed. */
function isAfter(time: string, now: Date): boolean {
  return milliseconds(time) > now.getTime();
}

/** RFC 3339 allows lower case. */
function milliseconds(time: string): number {
  return Date.parse(time.toUpperCase());
}

/** The user as whom a key's requests are authorized, as the API server names the key's service account. */
export function userOfKey({ metadata: { namespace }, spec }: Pick<ApiKey, "metadata" | "spec">): {
  user: string;
  groups: string[];
} {
  return {
    user: `system:serviceaccount:${namespace}:${spec.serviceAccountName}`,
    groups: ["system:serviceaccounts", `system:serviceaccounts:${namespace}`, "system:authenticated"],
  };
}

/** The limits of a key. `Infinity`: unlimited. */
export interface ApiKeyLimits {
  sandboxes: number;
  requestsPerSecond: number;
  concurrentRequests: number;
  bytesInFlight: number;
  snapshotBytes: number;
}

/** @throws RametError `InvalidArgument` for a quantity that the schema does not allow */
export function limitsOfKey({ limits = {} }: Pick<ApiKeySpec, "limits">): ApiKeyLimits {
  const { sandboxes = Infinity, snapshotBytes } = limits;
  const { requestsPerSecond = defaultKeyLimits.requestsPerSecond } = limits;
  const { concurrentRequests = defaultKeyLimits.concurrentRequests } = limits;
  const { bytesInFlight = defaultKeyLimits.bytesInFlight } = limits;
  return {
    sandboxes,
    requestsPerSecond,
    concurrentRequests,
    bytesInFlight: quantityToBytes(bytesInFlight, "spec.limits.bytesInFlight"),
    snapshotBytes: snapshotBytes === undefined ? Infinity : quantityToBytes(snapshotBytes, "spec.limits.snapshotBytes"),
  };
}

export interface Rotation {
  /** The digest of the new value. */
  digest: string;
  now: Date;
  /** How long the previous values work from now on. */
  graceMilliseconds: number;
}

/**
 * The digests of a key after a rotation: that of the new value, and those of values that are still accepted until the end of the
 * grace period. A value that expires earlier keeps its time, and expired ones are dropped. Can be repeated.
 * @throws RametError `InvalidArgument` for the grace period; `Conflict` if too many previous values would still be accepted
 */
export function rotatedDigests(
  digests: readonly KeyDigest[],
  { digest, now, graceMilliseconds }: Rotation,
): KeyDigest[] {
  if (graceMilliseconds < 0 || graceMilliseconds > longestGraceMilliseconds)
    throw new RametError("InvalidArgument", "The grace period must be from 0 to 3650d");
  const end = new Date(now.getTime() + graceMilliseconds);
  const others = digests.filter((one) => one.digest !== digest);
  const previous = graceMilliseconds === 0 ? [] : unexpired(others, now).map((one) => endingAt(one, end));
  if (previous.length >= mostDigests) {
    throw new RametError(
      "Conflict",
      `The key has ${previous.length} values that have not expired, and at most ${mostDigests}`,
      { hint: "Wait until one of them has expired, or revoke the key and create it again" },
    );
  }
  return [{ digest }, ...previous];
}

function endingAt(one: KeyDigest, end: Date): KeyDigest {
  const isEarlier = unexpired([one], end).length === 0;
  return isEarlier ? one : { ...one, expiresAt: end.toISOString() };
}

const longestGraceMilliseconds = 3650 * 86_400_000;
