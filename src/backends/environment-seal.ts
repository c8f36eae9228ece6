import { randomBytes } from "node:crypto";
import * as z from "zod";
import { sealIdentity } from "../api/credentials/credential-seal.ts";
import { publicSealForm, type RequestSeal } from "../api/names/init-request.ts";
import { annotations } from "../api/names/labels.ts";
import { environmentKeyEntry, environmentKeySecret, systemNamespace } from "../api/names/system-names.ts";
import { decryptBytes, encryptBytes } from "../base/authenticated-encryption.ts";
import { RametError } from "../base/errors.ts";
import type { KubeClient } from "../kube/kube-client.ts";
import { ObjectMeta } from "../kube/object.ts";
import { credentialKeys } from "./credential-keys.ts";
import { keptSecret } from "./kept-secret.ts";

/** Reads the key with which this cluster's controllers seal requests. Creates the Secret if it does not exist. */
export async function clusterEnvironmentKey(client: KubeClient, signal?: AbortSignal): Promise<Buffer> {
  const make = () => ({ [environmentKeyEntry]: randomBytes(keyBytes).toString("base64") });
  const { data } = await keptSecret(client, { name: environmentKeySecret, schema: KeySecret, make }, signal);
  return Buffer.from(data[environmentKeyEntry], "base64");
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

const KeySecret = z.looseObject({
  metadata: ObjectMeta,
  data: z.looseObject({ [environmentKeyEntry]: z.string().min(1) }),
});
