import {
  createHash,
  createHmac,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  randomUUID,
} from "node:crypto";
import { SignJWT } from "jose";
import { type Clock, systemClock } from "../../base/clock.ts";

/** How long a token is valid. A cell accepts no token with a longer life. */
export const tokenLifeSeconds = 60;

/** A key pair of the controllers or of the gateways. The private key signs calls to cells; the public key is in their Pods. */
export interface CellKey {
  privateKey: KeyObject;
  /** base64url of the 32 bytes. */
  publicKey: string;
}

/** Generates an Ed25519 key as PKCS #8 PEM text, for a Secret. */
export function newCellKeyPem(): string {
  return generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" }).toString();
}

export function cellKeyFromPem(pem: string): CellKey {
  const privateKey = createPrivateKey(pem);
  const { x } = createPublicKey(privateKey).export({ format: "jwk" });
  return { privateKey, publicKey: x ?? "" };
}

/**
 * Signs a token for one operation on one sandbox, and for this body if there is one. It is valid for a minute, and an operation
 * that changes the sandbox accepts it once.
 */
export function signCellToken(
  key: CellKey,
  call: { sandboxUid: string; operation: string; body?: string | undefined },
  clock: Clock = systemClock,
): Promise<string> {
  const digest = call.body === undefined ? {} : { bdg: createHash("sha256").update(call.body).digest("base64url") };
  const now = Math.floor(clock.now().getTime() / 1000);
  return new SignJWT({ op: call.operation, ...digest })
    .setProtectedHeader({ alg: "EdDSA", kid: key.publicKey })
    .setAudience(call.sandboxUid)
    .setJti(randomUUID())
    .setIssuedAt(now)
    .setExpirationTime(now + tokenLifeSeconds)
    .sign(key.privateKey);
}

/** The token that clients present to a sandbox's guest. It is derived, so it is not stored and differs for each clone. */
export function guestAccessToken(guestSecret: Buffer, sandboxUid: string): string {
  return createHmac("sha256", guestSecret).update(`guest:${sandboxUid}`).digest("base64url");
}

/** The token with which clients reach the ports of a sandbox that are not public. Derived as the guest's, and useless to it. */
export function trafficAccessToken(guestSecret: Buffer, sandboxUid: string): string {
  return createHmac("sha256", guestSecret).update(`traffic:${sandboxUid}`).digest("base64url");
}
