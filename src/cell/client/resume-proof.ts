import { createHmac } from "node:crypto";
import { equalSecrets } from "../../base/authenticated-encryption.ts";
import type { Clock } from "../../base/clock.ts";

/** The header with which a gateway proves to the client API that it is one. */
export const resumeProofHeader = "ramet-resume-proof";

/** The clocks of the two servers can differ. A stolen proof, which allows to resume that sandbox, is valid for this time. */
const toleranceSeconds = 120;

/**
 * Proves that the sender is a gateway that asks for the resume of this sandbox. Gateways and the client API both read the secret of
 * the guests, and no tenant can. (docs/decisions/0026-auto-resume.md)
 */
export function resumeProof(guestSecret: Buffer, sandboxUid: string, clock: Clock): string {
  const seconds = secondsOf(clock);
  return `${seconds}.${macOf(guestSecret, sandboxUid, seconds)}`;
}

export function isResumeProof(given: string, guestSecret: Buffer, sandboxUid: string, clock: Clock): boolean {
  const [, seconds, mac] = /^(\d{1,12})\.([\w-]{43})$/.exec(given) ?? [];
  if (seconds === undefined || mac === undefined) return false;
  if (Math.abs(Number(seconds) - secondsOf(clock)) > toleranceSeconds) return false;
  return equalSecrets(mac, macOf(guestSecret, sandboxUid, Number(seconds)));
}

function secondsOf(clock: Clock): number {
  return Math.floor(clock.now().getTime() / 1000);
}

function macOf(guestSecret: Buffer, sandboxUid: string, seconds: number): string {
  return createHmac("sha256", guestSecret).update(`resume:${sandboxUid}:${seconds}`).digest("base64url");
}
