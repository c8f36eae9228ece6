import {
  createHash,
  createHmac,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
} from "node:crypto";
import { SignJWT } from "jose";

const lifeSeconds = 60;

/** A key pair of the controllers or of the gateways: the private half signs calls to cells, the public half stands in their Pods. */
export interface CellKey {
  privateKey: KeyObject;
  /** base64url of the 32 bytes. */
  publicKey: string;
}

/** A new Ed25519 key, as the PKCS #8 PEM text that a Secret keeps. */
export function newCellKeyPem(): string {
  return generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" }).toString();
}

export function cellKeyFromPem(pem: string): CellKey {
  const privateKey = createPrivateKey(pem);
  const { x } = createPublicKey(privateKey).export({ format: "jwk" });
  return { privateKey, publicKey: x ?? "" };
}

/** A token for one operation on one sandbox, for this very body where there is one; valid for a minute. */
export function signCellToken(
  key: CellKey,
  call: { sandboxUid: string; operation: string; body?: string | undefined },
): Promise<string> {
  const digest = call.body === undefined ? {} : { bdg: createHash("sha256").update(call.body).digest("base64url") };
  return new SignJWT({ op: call.operation, ...digest })
    .setProtectedHeader({ alg: "EdDSA", kid: key.publicKey })
    .setAudience(call.sandboxUid)
    .setExpirationTime(Math.floor(Date.now() / 1000) + lifeSeconds)
    .sign(key.privateKey);
}

/** The token with which clients reach a sandbox's guest: derived, so it is stored nowhere and differs for each clone. */
export function guestAccessToken(clusterSecret: Buffer, sandboxUid: string): string {
  return createHmac("sha256", clusterSecret).update(`guest:${sandboxUid}`).digest("base64url");
}
