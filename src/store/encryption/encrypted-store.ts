import { hkdfSync, randomBytes } from "node:crypto";
import type { Envelope, Grant } from "../../api/wire/grant.ts";
import { decryptBytes, encryptBytes } from "../../base/authenticated-encryption.ts";
import { RametError } from "../../base/errors.ts";
import type { CheckpointRef } from "../checkpoint-id.ts";
import type { CheckpointStore } from "../checkpoint-store.ts";

/** The keys of an installation. */
export interface EncryptionKeys {
  /** The key for new checkpoints of a namespace, or undefined if they are not encrypted. @throws RametError `KeyUnavailable` */
  current(namespace: string): Promise<EncryptionKey | undefined>;
  /** A key that has encrypted a checkpoint before. @throws RametError `KeyUnavailable` */
  find(named: Pick<EncryptionKey, "secret" | "key">): Promise<EncryptionKey>;
}

export interface EncryptionKey {
  /** The Secret that holds the key, and its name there. */
  secret: string;
  key: string;
  /** 32 bytes. */
  bytes: Buffer;
}

/**
 * Adds encryption to a store. Each capture has a random data key, which its cell gets in the grant. The manifest contains it
 * encrypted with the key of the namespace, which is derived from a key of the installation: the envelope. Controllers never see
 * the data, and cells never see a key that outlives their grant.
 */
export function encryptedStore(store: CheckpointStore, keys: EncryptionKeys): CheckpointStore {
  /** Manifests are immutable, so an envelope is read once. */
  const envelopes = new Map<string, Envelope | undefined>();

  async function envelopeOf(request: CheckpointRef & { manifestDigest: string }): Promise<Envelope | undefined> {
    const { manifestDigest: digest, namespace, checkpointId } = request;
    if (!envelopes.has(digest)) {
      const { encryption } = await store.manifest({ namespace, checkpointId, digest });
      if (envelopes.size >= mostEnvelopes) envelopes.clear();
      envelopes.set(digest, encryption);
    }
    return envelopes.get(digest);
  }

  return {
    ...store,
    async grantWrite(request): Promise<Grant> {
      const key = await keys.current(request.namespace);
      const grant = await store.grantWrite(request);
      if (key === undefined) return grant;
      const dataKey = randomBytes(keyBytes);
      return { ...grant, encryption: { dataKey: dataKey.toString("base64"), envelope: sealed(dataKey, key, request) } };
    },
    async manifest(request) {
      const manifest = await store.manifest(request);
      const mayBePlain = request.isAdopted !== true || manifest.encryption !== undefined;
      if (mayBePlain || (await keys.current(request.namespace)) === undefined) return manifest;
      throw notEncrypted(request);
    },
    async grantRead(request): Promise<Grant> {
      const envelope = await envelopeOf(request);
      const dataKey = envelope && opened(envelope, await keys.find(envelope), request);
      const grant = await store.grantRead(request);
      if (envelope === undefined || dataKey === undefined) return grant;
      return { ...grant, encryption: { dataKey: dataKey.toString("base64"), envelope } };
    },
  };
}

const mostEnvelopes = 10_000;
const keyBytes = 32;

function sealed(dataKey: Buffer, { secret, key, bytes }: EncryptionKey, ref: CheckpointRef): Envelope {
  const wrapped = encryptBytes(namespaceKey(bytes, ref), dataKey, identityOf(ref)).toString("base64");
  return { algorithm: "AES-256-GCM", secret, key, wrapped };
}

function opened({ wrapped, secret, key }: Envelope, { bytes }: EncryptionKey, ref: CheckpointRef): Buffer {
  try {
    return decryptBytes(namespaceKey(bytes, ref), Buffer.from(wrapped, "base64"), identityOf(ref));
  } catch (cause) {
    const what = `cannot read checkpoint ${ref.namespace}/${ref.checkpointId}: the key ${key} of the Secret ${secret} is not the one that encrypted it`;
    throw new RametError("KeyUnavailable", what, { hint: `Restore the former value of ${key} in the Secret`, cause });
  }
}

/** Cells encrypt, so somebody else who can write the store may have published it. */
function notEncrypted({ namespace, checkpointId }: CheckpointRef): RametError {
  const why = "it is not encrypted, and this installation encrypts";
  return new RametError("CheckpointLost", `cannot use checkpoint ${namespace}/${checkpointId}: ${why}`, {
    hint: "Check who can write the store, then create another Checkpoint",
  });
}

/** Each namespace has its own key, so that the envelope of one is worthless in another. */
function namespaceKey(bytes: Buffer, { namespace }: CheckpointRef): Buffer {
  return Buffer.from(hkdfSync("sha256", bytes, "", `ramet.dev/checkpoints/${namespace}`, keyBytes));
}

function identityOf({ namespace, checkpointId }: CheckpointRef): string {
  return `${namespace}/${checkpointId}`;
}
