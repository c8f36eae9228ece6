import { randomBytes } from "node:crypto";
import * as z from "zod";
import {
  cellKeySecret,
  guestKeySecret,
  guestSecretEntry,
  privateKeyEntry,
  systemNamespace,
} from "../api/names/system-names.ts";
import { RametError } from "../base/errors.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { ObjectMeta } from "../kube/object.ts";
import { coreResources } from "../kube/resource-ref.ts";
import { newCellKeyPem, cellKeyFromPem, guestAccessToken, type CellKey } from "../cell/client/cell-token.ts";
import { keptSecret } from "./kept-secret.ts";

/**
 * Reads what controllers need for this cluster's cells and guests. Creates the Secrets that do not exist.
 *
 * Earlier versions kept the guests' secret in the cell key's Secret. It is copied from there, so tokens stay the same.
 */
export async function clusterCredentials(client: KubeClient, signal?: AbortSignal): Promise<CellCredentials> {
  const cells = { name: cellKeySecret, schema: CellKeySecret, make: newPrivateKey };
  const cellKey = await keptSecret(client, cells, signal);
  const make = () => ({ [guestSecretEntry]: cellKey.data[earlierGuestSecretEntry] ?? newGuestSecret() });
  const guestKey = await keptSecret(client, { name: guestKeySecret, schema: GuestKeySecret, make }, signal);
  return credentialsIn(cellKey, guestKey.data[guestSecretEntry]);
}

/**
 * Reads the same credentials, for clients other than the controllers. Creates nothing.
 * @throws RametError `NotFound` before a controller has created them, `Forbidden`
 */
export async function readClusterCredentials(client: KubeClient, signal?: AbortSignal): Promise<CellCredentials> {
  const { secrets } = coreResources;
  const [cellKey, guestKey] = await Promise.all([
    client
      .resource(secrets, (value) => CellKeySecret.parse(value))
      .get({ namespace: systemNamespace, name: cellKeySecret }, { signal }),
    client
      .resource(secrets, (value) => GuestKeySecret.parse(value))
      .find({ namespace: systemNamespace, name: guestKeySecret }, { signal }),
  ]);
  const guestSecret = guestKey?.data[guestSecretEntry] ?? cellKey.data[earlierGuestSecretEntry];
  if (guestSecret === undefined) {
    throw new RametError("NotFound", `The Secret ${guestKeySecret} in ${systemNamespace} does not exist`);
  }
  return credentialsIn(cellKey, guestSecret);
}

/** The values of a Secret with a new key, base64. */
export function newPrivateKey(): Record<typeof privateKeyEntry, string> {
  return { [privateKeyEntry]: Buffer.from(newCellKeyPem()).toString("base64") };
}

/** Where versions before the guests' Secret kept its value. */
const earlierGuestSecretEntry = "cluster-secret";

/** A Secret with a private key: that of the cells, or that of the gateways. */
export const PrivateKeySecret = z.looseObject({
  metadata: ObjectMeta,
  data: z.looseObject({ [privateKeyEntry]: z.string().min(1) }),
});
export type PrivateKeySecret = z.infer<typeof PrivateKeySecret>;

const CellKeySecret = PrivateKeySecret.extend({
  data: PrivateKeySecret.shape.data.extend({ [earlierGuestSecretEntry]: z.string().min(1).optional() }),
});

const GuestKeySecret = z.looseObject({
  metadata: ObjectMeta,
  data: z.looseObject({ [guestSecretEntry]: z.string().min(1) }),
});

/** Returns the key as PKCS #8 PEM. */
export function privateKeyIn({ data }: PrivateKeySecret): string {
  return Buffer.from(data[privateKeyEntry], "base64").toString("utf8");
}

function credentialsIn(cellKey: PrivateKeySecret, guestSecret: string): CellCredentials {
  return cellCredentials({ privateKeyPem: privateKeyIn(cellKey), guestSecret });
}

/** The keys with which a controller operates a cluster's cells. Secret: never in a log, a status or a Pod. */
export interface CellCredentials {
  key: CellKey;
  /** The public half of the key, as in Pods: base64url of its 32 bytes. */
  publicKey: string;
  /** The token that the guest of this sandbox requires from clients. */
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
