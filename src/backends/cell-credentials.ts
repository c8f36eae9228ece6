import { randomBytes } from "node:crypto";
import { cellKeyFromPem, guestAccessToken, newCellKeyPem, type CellKey } from "../cell/client/cell-token.ts";

export { newCellKeyPem } from "../cell/client/cell-token.ts";

/** The keys with which a controller operates a cluster's cells. Secret: never in a log, a status or a Pod. */
export interface CellCredentials {
  key: CellKey;
  /** The public half of the key, as in Pods: base64url of its 32 bytes. */
  publicKey: string;
  /** The token that the guest of this sandbox requires from clients. */
  guestToken(sandboxUid: string): string;
}

/** The credentials as text, for Kubernetes Secrets. */
export interface StoredCellCredentials {
  /** Ed25519, PKCS #8 PEM. */
  privateKeyPem: string;
  /** 32 bytes, base64. */
  guestSecret: string;
}

export function newCellCredentials(): StoredCellCredentials {
  return { privateKeyPem: newCellKeyPem(), guestSecret: newGuestSecret() };
}

/** A secret from which the tokens of guests are derived: 32 bytes, base64. */
export function newGuestSecret(): string {
  return randomBytes(32).toString("base64");
}

export function cellCredentials(stored: StoredCellCredentials): CellCredentials {
  const key = cellKeyFromPem(stored.privateKeyPem);
  const guestSecret = Buffer.from(stored.guestSecret, "base64");
  return { key, publicKey: key.publicKey, guestToken: (sandboxUid) => guestAccessToken(guestSecret, sandboxUid) };
}
