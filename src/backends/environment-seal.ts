import { randomBytes } from "node:crypto";
import { sealIdentity, credentialKeyMap, sealedBytes } from "../api/credentials/credential-seal.ts";
import { publicSealForm, type RequestSeal } from "../api/names/init-request.ts";
import { annotations } from "../api/names/labels.ts";
import { environmentKeyEntry, environmentKeySecret, systemNamespace } from "../api/names/system-names.ts";
import {
  decryptBytes,
  encryptBytes,
  derivedBytes,
  openBytes,
  publicBytes,
  sealingKey,
} from "../base/authenticated-encryption.ts";
import { RametError } from "../base/errors.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { secretBytes } from "../kube/object.ts";
import { keptSecret } from "./kept-secret.ts";
import { coreResources } from "../kube/resource-ref.ts";

/** Reads the key with which this cluster's controllers seal requests. Creates the Secret if it does not exist. */
export async function clusterEnvironmentKey(client: KubeClient, signal?: AbortSignal): Promise<Buffer> {
  const make = () => ({ [environmentKeyEntry]: randomBytes(keyBytes).toString("base64") });
  return secretBytes(await keptSecret(client, { name: environmentKeySecret, make }, signal), environmentKeyEntry);
}

const keyBytes = 32;

/**
 * Encrypts requests for their namespace, so a request that is copied to another namespace cannot be opened there.
 * @throws RametError `InvalidArgument` if the key is not 32 bytes
 */
export function environmentSeal(key: Buffer): RequestSeal {
  if (key.length !== keyBytes) {
    const where = `The entry ${environmentKeyEntry} of the Secret ${systemNamespace}/${environmentKeySecret}`;
    throw new RametError("InvalidArgument", `${where} is not a key: it has ${key.length} bytes, not ${keyBytes}`);
  }
  const keys = credentialKeys(key);
  return {
    seal: (namespace, request) => `${form}${encryptBytes(key, Buffer.from(request), namespace).toString("base64url")}`,
    open: (namespace, sealed) => {
      try {
        if (sealed.startsWith(publicSealForm))
          return keys.open(sealIdentity(namespace, "request"), sealed.slice(publicSealForm.length));
        if (!sealed.startsWith(form)) throw new Error("another form");
        return decryptBytes(key, Buffer.from(sealed.slice(form.length), "base64url"), namespace).toString("utf8");
      } catch (cause) {
        throw new RametError(
          "InvalidArgument",
          `The annotation ${annotations.sealedInitRequest} cannot be opened: it was changed, or sealed for another namespace or cluster`,
          { cause, hint: `Set the variables again with the annotation ${annotations.initRuntimeRequest}` },
        );
      }
    },
  };
}

/** Another form can follow, for example with the id of a key. */
const form = "v1.";

/** The keys that only the controllers have: the key for texts that clients have sealed, and the seeds of the CAs of sandboxes. */
export interface CredentialKeys {
  publicKey: string;
  /** @throws RametError `InvalidArgument`, which does not quote the text */
  open(identity: string, sealed: string): string;
  /** Base64 of the seed for the CA of a namespace. A clone trusts the CA that its source trusted. */
  authoritySeed(namespace: string): string;
}

/** @param secret the key with which the controllers seal variables */
export function credentialKeys(secret: Buffer): CredentialKeys {
  const key = sealingKey(secret, "ramet.dev/credentials");
  return {
    publicKey: publicBytes(key).toString("base64url"),
    open: (identity, sealed) => {
      try {
        const bytes = sealedBytes(sealed);
        if (bytes === undefined) throw new Error("another form");
        return openBytes(key, bytes, identity).toString("utf8");
      } catch (cause) {
        throw new RametError(
          "InvalidArgument",
          "A sealed secret cannot be opened: it was changed, or sealed for another namespace or cluster",
          { cause, hint: "Store the secret again" },
        );
      }
    },
    authoritySeed: (namespace) => derivedBytes(secret, `ramet.dev/authority/${namespace}`).toString("base64"),
  };
}

export async function publishCredentialKey(client: KubeClient, { publicKey }: CredentialKeys): Promise<void> {
  const metadata = { namespace: systemNamespace, name: credentialKeyMap };
  await client
    .resource(coreResources.configMaps)
    .apply(
      { apiVersion: "v1", kind: "ConfigMap", metadata, data: { publicKey } },
      { fieldManager: "ramet", force: true },
    );
}
