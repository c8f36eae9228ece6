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
import { keyValueIdLength } from "../../api/keys/api-key-text.ts";
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

/**
 * The token that a sandbox's guest requires. It is derived, so it is not stored and differs for each clone. Programs in the sandbox can
 * find it, so gateways send it and authorize no client by it.
 */
export function guestAccessToken(guestSecret: Buffer, sandboxUid: string): string {
  return derived(guestSecret, `guest:${sandboxUid}`);
}

/** The token with which the client API enters a sandbox through a gateway. */
export function serverAccessToken(guestSecret: Buffer, sandboxUid: string): string {
  return derived(guestSecret, `server:${sandboxUid}`);
}

/** The token with which the client API reaches the ports of a sandbox that are not public. */
export function trafficAccessToken(guestSecret: Buffer, sandboxUid: string): string {
  return derived(guestSecret, `traffic:${sandboxUid}`);
}

/** What a client can do with a token: enter the sandbox, or only reach its ports that are not public. */
export type ClientTokenUse = "enter" | "traffic";

/**
 * The token of a client for a sandbox. It names the value of the API key with which the client got it, so that gateways can refuse it
 * when the value is revoked.
 * @param valueId see `keyValueId`
 */
export function clientAccessToken(
  guestSecret: Buffer,
  { use, sandboxUid, valueId }: { use: ClientTokenUse; sandboxUid: string; valueId: string },
): string {
  return `${valueId}.${derived(guestSecret, `client-${use}:${sandboxUid}:${valueId}`)}`;
}

/** Returns the identifier in the token of a client; undefined if the text cannot be one. */
export function valueIdIn(clientToken: string): string | undefined {
  const [valueId, mac, ...more] = clientToken.split(".", 3);
  return valueId?.length === keyValueIdLength && mac !== undefined && more.length === 0 ? valueId : undefined;
}

function derived(guestSecret: Buffer, text: string): string {
  return createHmac("sha256", guestSecret).update(text).digest("base64url");
}
