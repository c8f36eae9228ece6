import { credentialKeyMap, sealedBytes } from "../api/credentials/credential-seal.ts";
import { systemNamespace } from "../api/names/system-names.ts";
import { RametError } from "../base/errors.ts";
import { derivedBytes, openBytes, publicBytes, sealingKey } from "../base/sealed-box.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { coreResources } from "../kube/resource-ref.ts";

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

/** Tells the client API for which key it seals. */
export async function publishCredentialKey(client: KubeClient, { publicKey }: CredentialKeys): Promise<void> {
  const metadata = { namespace: systemNamespace, name: credentialKeyMap };
  await client
    .resource(coreResources.configMaps)
    .apply(
      { apiVersion: "v1", kind: "ConfigMap", metadata, data: { publicKey, opensRequests: "true" } },
      { fieldManager: "ramet", force: true },
    );
}
