import { createHash } from "node:crypto";

/**
 * The lock of the n-th sandbox of a claim, in the shape of a UUID. Always the same: a controller that repeats what another
 * one died over finds that one's sandbox, and makes no second one.
 */
export function ordinalLock(claimUid: string, ordinal: number): string {
  const hex = createHash("sha256").update(`${claimUid}/${ordinal}`).digest("hex");
  const parts = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ];
  return parts.join("-");
}
