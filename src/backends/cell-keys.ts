import { randomBytes } from "node:crypto";
import {
  cellKeySecret,
  guestKeySecret,
  guestSecretEntry,
  privateKeyEntry,
  systemNamespace,
} from "../api/names/system-names.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { type DataMap, secretBytes } from "../kube/object.ts";
import { newCellKeyPem, cellKeyFromPem, guestAccessToken, type CellKey } from "../cell/client/cell-token.ts";
import { keptSecret } from "./kept-secret.ts";

/** Reads what controllers need for this cluster's cells and guests. Creates the Secrets that do not exist. */
export async function clusterCredentials(client: KubeClient, signal?: AbortSignal): Promise<CellCredentials> {
  const cellKey = await keptSecret(client, { name: cellKeySecret, make: newPrivateKey }, signal);
  const make = () => ({ [guestSecretEntry]: newGuestSecret() });
  return credentialsIn(cellKey, await keptSecret(client, { name: guestKeySecret, make }, signal));
}

/**
 * Reads the same credentials, for clients other than the controllers. Creates nothing.
 * @throws RametError `NotFound` before a controller has created them, `Forbidden`
 */
export async function readClusterCredentials(client: KubeClient, signal?: AbortSignal): Promise<CellCredentials> {
  const read = (name: string) => client.secrets.get({ namespace: systemNamespace, name }, { signal });
  const [cellKey, guestKey] = await Promise.all([read(cellKeySecret), read(guestKeySecret)]);
  return credentialsIn(cellKey, guestKey);
}

/** The values of a Secret with a new key, base64. */
export function newPrivateKey(): Record<typeof privateKeyEntry, string> {
  return { [privateKeyEntry]: Buffer.from(newCellKeyPem()).toString("base64") };
}

/** Returns the key of cells or of gateways, as PKCS #8 PEM. */
export function privateKeyIn(secret: DataMap): string {
  return secretBytes(secret, privateKeyEntry).toString("utf8");
}

function credentialsIn(cellKey: DataMap, guestKey: DataMap): CellCredentials {
  const guestSecret = secretBytes(guestKey, guestSecretEntry).toString("base64");
  return cellCredentials({ privateKeyPem: privateKeyIn(cellKey), guestSecret });
}

/** The keys with which a controller operates a cluster's cells. Secret: never in a log, a status or a Pod. */
export interface CellCredentials {
  key: CellKey;
  /** The public half of the key, as in Pods: base64url of its 32 bytes. */
  publicKey: string;
  guestToken(sandboxUid: string): string;
}

/** The credentials as text, for Kubernetes Secrets. */
interface StoredCellCredentials {
  /** Ed25519, PKCS #8 PEM. */
  privateKeyPem: string;
  /** 32 bytes, base64. */
  guestSecret: string;
}

export function newCellCredentials(): StoredCellCredentials {
  return { privateKeyPem: newCellKeyPem(), guestSecret: newGuestSecret() };
}

/** A secret from which the tokens of guests are derived: 32 bytes, base64. */
function newGuestSecret(): string {
  return randomBytes(32).toString("base64");
}

export function cellCredentials(stored: StoredCellCredentials): CellCredentials {
  const key = cellKeyFromPem(stored.privateKeyPem);
  const guestSecret = Buffer.from(stored.guestSecret, "base64");
  return { key, publicKey: key.publicKey, guestToken: (sandboxUid) => guestAccessToken(guestSecret, sandboxUid) };
}
