import type { CellPodOptions } from "../api/pod/cell-pod.ts";
import type { KeySets } from "../api/wire/cell-api.ts";
import {
  privateKeyEntry,
  systemNamespace,
  type KeyPower,
  keySecrets,
  nextSecretOf,
} from "../api/names/system-names.ts";
import { cellKeyFromPem, type CellKey } from "../cell/client/cell-token.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import type { ResourceClient } from "../kube/resource-client.ts";
import type { DataMap } from "../kube/object.ts";
import { newPrivateKey, privateKeyIn } from "./cell-keys.ts";
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
