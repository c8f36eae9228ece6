import { randomBytes } from "node:crypto";
import {
  type KeyPower,
  cellKeySecret,
  guestKeySecret,
  guestSecretEntry,
  keySecrets,
  nextSecretOf,
  privateKeyEntry,
  systemNamespace,
} from "../api/names/system-names.ts";
import type { CellPodOptions } from "../api/pod/cell-pod.ts";
import type { KeySets } from "../api/wire/cell-api.ts";
import { type CellKey, cellKeyFromPem, guestAccessToken, newCellKeyPem } from "../cell/client/cell-token.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { type DataMap, secretBytes } from "../kube/object.ts";
import type { ResourceClient } from "../kube/resource-client.ts";
import { immutableSecret, keptSecret } from "./kept-secret.ts";

/**
 * The keys that sign calls to cells, one for each power. During a rotation a second Secret holds the next key: from its
 * creation until the first Secret has the same key, cells are told to accept both; then the first key signs, and cells are told
 * to accept only it. Every step can be repeated, also by another process.
 */
export class ClusterKeys {
  readonly #secrets: ResourceClient<DataMap>;
  readonly #keys: Record<KeyPower, Keys>;

  private constructor(secrets: ResourceClient<DataMap>, keys: Record<KeyPower, Keys>) {
    this.#secrets = secrets;
    this.#keys = keys;
  }

  /** Reads the keys. Creates those that do not exist. */
  static async open(client: KubeClient, signal?: AbortSignal): Promise<ClusterKeys> {
    const { secrets } = client;
    const read = async (power: KeyPower): Promise<Keys> => {
      const next = await secrets.find(at(nextSecretOf(power)), { signal });
      const make = () => next?.data ?? newPrivateKey();
      // After a crash between the deletion and the creation of the first Secret, the next key is in the second one.
      const current = await keptSecret(client, { name: keySecrets[power], make }, signal);
      return { current: keyIn(current), next: next && keyIn(next) };
    };
    const [cells, gateways] = await Promise.all([read("cells"), read("gateways")]);
    return new ClusterKeys(secrets, { cells, gateways });
  }

  /** Signs calls to cells. */
  get cellKey(): CellKey {
    return this.#keys.cells.current;
  }

  publicKey(power: KeyPower): string {
    return this.#keys[power].current.publicKey;
  }

  /** The keys that cells should accept now. */
  get sets(): KeySets {
    const { cells, gateways } = this.#keys;
    return { controllers: accepted(cells), gateways: accepted(gateways) };
  }

  get podKeys(): Pick<CellPodOptions, "publicKey" | "gatewayKey" | "keySets"> {
    const isRotating = this.stepOf("cells") === "adding" || this.stepOf("gateways") === "adding";
    return {
      publicKey: this.publicKey("cells"),
      gatewayKey: this.publicKey("gateways"),
      keySets: isRotating ? this.sets : undefined,
    };
  }

  /** `adding`: cells learn the next key. `removing`: the next key signs, and cells forget the previous one. */
  stepOf(power: KeyPower): "adding" | "removing" | undefined {
    const { current, next } = this.#keys[power];
    if (next === undefined) return undefined;
    return next.publicKey === current.publicKey ? "removing" : "adding";
  }

  /** Creates the next key, unless there is one. */
  async begin(power: KeyPower, signal?: AbortSignal): Promise<void> {
    const keys = this.#keys[power];
    if (keys.next !== undefined) return;
    const place = at(nextSecretOf(power));
    const found = await this.#secrets.find(place, { signal });
    keys.next = keyIn(found ?? (await this.#secrets.create(immutableSecret(place, newPrivateKey()), { signal })));
  }

  /** Lets the next key sign. The second Secret keeps it until `end`, so no crash loses it. */
  async advance(power: KeyPower, signal?: AbortSignal): Promise<void> {
    const keys = this.#keys[power];
    if (keys.next === undefined) return;
    const { publicKey, encodedPem } = keys.next;
    const place = at(keySecrets[power]);
    const found = await this.#secrets.find(place, { signal });
    if (found === undefined || keyIn(found).publicKey !== publicKey) {
      // Its values are immutable.
      if (found !== undefined) await this.#secrets.delete(place, { uid: found.metadata.uid, signal });
      await this.#secrets.create(immutableSecret(place, { [privateKeyEntry]: encodedPem }), { signal });
    }
    keys.current = keys.next;
  }

  /** Deletes the second Secret. */
  async end(power: KeyPower, signal?: AbortSignal): Promise<void> {
    await this.#secrets.delete(at(nextSecretOf(power)), { signal });
    this.#keys[power].next = undefined;
  }
}

/** A key with its value as in the Secret. */
interface StoredKey extends CellKey {
  encodedPem: string;
}

interface Keys {
  current: StoredKey;
  next: StoredKey | undefined;
}

function accepted({ current, next }: Keys): string[] {
  return [...new Set([current.publicKey, ...(next ? [next.publicKey] : [])])];
}

function at(name: string) {
  return { namespace: systemNamespace, name };
}

function keyIn(secret: DataMap): StoredKey {
  const pem = privateKeyIn(secret);
  return { ...cellKeyFromPem(pem), encodedPem: Buffer.from(pem).toString("base64") };
}

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
function newPrivateKey(): Record<typeof privateKeyEntry, string> {
  return { [privateKeyEntry]: Buffer.from(newCellKeyPem()).toString("base64") };
}

/** Returns the key of cells or of gateways, as PKCS #8 PEM. */
function privateKeyIn(secret: DataMap): string {
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
