import { randomBytes } from "node:crypto";
import { cellKeyFromPem, guestAccessToken, newCellKeyPem, type CellKey } from "../cell/client/cell-token.ts";

export { newCellKeyPem } from "../cell/client/cell-token.ts";

/** What makes a controller the controller of a cluster's cells. Secret: never in a log, a status or a Pod. */
export interface CellCredentials {
  key: CellKey;
  /** The public half of the key as it stands in Pods, base64url of its 32 bytes. */
  publicKey: string;
  /** The token with which clients reach the guest of this sandbox. */
  guestToken(sandboxUid: string): string;
}

/** The same as text, for a Kubernetes Secret. */
export interface StoredCellCredentials {
  /** Ed25519, PKCS #8 PEM. */
  privateKeyPem: string;
  /** 32 bytes, base64. */
  clusterSecret: string;
}

export function newCellCredentials(): StoredCellCredentials {
  return { privateKeyPem: newCellKeyPem(), clusterSecret: randomBytes(32).toString("base64") };
}

export function cellCredentials(stored: StoredCellCredentials): CellCredentials {
  const key = cellKeyFromPem(stored.privateKeyPem);
  const clusterSecret = Buffer.from(stored.clusterSecret, "base64");
  return { key, publicKey: key.publicKey, guestToken: (sandboxUid) => guestAccessToken(clusterSecret, sandboxUid) };
}

/** As it stands in Pods, base64url of its 32 bytes. */
export function publicKeyOf(privateKeyPem: string): string {
  return cellKeyFromPem(privateKeyPem).publicKey;
}
