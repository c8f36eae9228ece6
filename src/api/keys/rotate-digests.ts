import { RametError } from "../../base/errors.ts";
import { type ApiKeySpec, mostDigests } from "../kinds/api-key.ts";
import { unexpired } from "./api-key-rules.ts";

type KeyDigest = ApiKeySpec["digests"][number];

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
