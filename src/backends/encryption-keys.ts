import * as z from "zod";
import { annotations } from "../api/names/labels.ts";
import { systemNamespace } from "../api/names/system-names.ts";
import { RametError } from "../base/errors.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { ObjectMeta } from "../kube/object.ts";
import { coreResources } from "../kube/resource-ref.ts";
import type { EncryptionKey, EncryptionKeys } from "../store/encryption/encrypted-store.ts";

/**
 * Keys in Secrets of `ramet-system`: each entry is a key of 32 bytes, and `current` names the one for new checkpoints. Older ones
 * stay until no checkpoint needs them. A namespace can have its own Secret, or `none`.
 * @param defaultSecret the Secret for namespaces without an annotation, or `none`
 */
export function encryptionKeys(client: KubeClient, defaultSecret: string): EncryptionKeys {
  const secrets = client.resource(coreResources.secrets, (value) => KeySecret.parse(value));
  const namespaces = client.resource(coreResources.namespaces);

  async function dataOf(secret: string): Promise<Record<string, string>> {
    const found = await secrets.find({ namespace: systemNamespace, name: secret });
    if (found?.data?.["current"] !== undefined) return found.data;
    const why = found === undefined ? "does not exist" : 'has no entry "current", so it is not one of keys';
    throw unavailable(`the Secret ${secret} in the namespace ${systemNamespace} ${why}`);
  }

  function keyOf(secret: string, key: string, data: Record<string, string>): EncryptionKey {
    const bytes = Buffer.from(data[key] ?? "", "base64");
    if (key !== "current" && bytes.length === 32) return { secret, key, bytes };
    const why = data[key] === undefined ? "does not exist" : "does not have 32 bytes";
    throw unavailable(`the key ${key} of the Secret ${secret} in the namespace ${systemNamespace} ${why}`);
  }

  return {
    async current(namespace) {
      const { metadata } = await namespaces.get({ name: namespace });
      const secret = metadata.annotations?.[annotations.encryptionSecret] ?? defaultSecret;
      if (secret === "none") return undefined;
      const data = await dataOf(secret);
      return keyOf(
        secret,
        Buffer.from(data["current"] ?? "", "base64")
          .toString("utf8")
          .trim(),
        data,
      );
    },
    find: async ({ secret, key }) => keyOf(secret, key, await dataOf(secret)),
  };
}

const KeySecret = z.looseObject({ metadata: ObjectMeta, data: z.record(z.string(), z.string()).nullish() });

function unavailable(why: string): RametError {
  return new RametError("KeyUnavailable", `The key for checkpoints cannot be used: ${why}`, {
    hint: "Create the Secret, or restore its keys from your backup",
  });
}
