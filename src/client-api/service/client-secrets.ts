import {
  CredentialKey,
  type RegistryLogin,
  credentialKeyMap,
  loginIdentity,
  sealFor,
  sealIdentity,
} from "../../api/credentials/credential-seal.ts";
import type { ClientCredentials } from "../../api/credentials/credentials.ts";
import { type ClientSecret, clientSecretKind, clientSecretName } from "../../api/kinds/client-secret.ts";
import { type RequestSeal, publicSealForm } from "../../api/names/init-request.ts";
import { systemNamespace } from "../../api/names/system-names.ts";
import { rametApiVersion } from "../../api/schema/kind.ts";
import { defined } from "../../base/defined.ts";
import { RametError } from "../../base/errors.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import { systemReader } from "../../kube/system-reader.ts";

export interface NewClientSecret {
  namespace: string;
  name: string;
  value: string;
  metadata?: Record<string, string> | undefined;
}

/** The secrets of clients. They are sealed for the controllers: this process cannot read them again. */
export class ClientSecrets {
  readonly #client: KubeClient;
  readonly #secrets: ResourceClient<ClientSecret>;
  readonly #published: () => Promise<CredentialKey["data"]>;

  constructor(client: KubeClient) {
    this.#client = client;
    this.#secrets = client.of(clientSecretKind);
    this.#published = systemReader({
      resource: client.resource(coreResources.configMaps, (value) => CredentialKey.parse(value)),
      name: credentialKeyMap,
      valueOf: ({ data }) => data,
      failure: "The key with which secrets are sealed cannot be read",
      hint: `Check that the controllers have created the ConfigMap ${credentialKeyMap} in ${systemNamespace}`,
    });
  }

  /** The annotation with which a Sandbox requests these credentials. @throws RametError `Unavailable` */
  async seal(namespace: string, credentials: ClientCredentials): Promise<string> {
    return sealFor(await this.#publicKey(), sealIdentity(namespace, "sandbox"), JSON.stringify(credentials));
  }

  /** The annotation with which a named snapshot requests a Secret for image pulls. @throws RametError `Unavailable` */
  async sealLogin(snapshot: { namespace: string; uid: string }, login: RegistryLogin): Promise<string> {
    return sealFor(await this.#publicKey(), loginIdentity(snapshot), JSON.stringify(login));
  }

  /** Seals the variables of sandboxes before they are written. @throws RametError `Unavailable` */
  async requestSeal(): Promise<Pick<RequestSeal, "seal">> {
    const publicKey = await this.#publicKey();
    return {
      seal: (namespace, request) =>
        `${publicSealForm}${sealFor(publicKey, sealIdentity(namespace, "request"), request)}`,
    };
  }

  /** @throws RametError `Conflict` if the name is taken */
  async create({ namespace, name, value, metadata }: NewClientSecret): Promise<ClientSecret> {
    const sealedValue = await this.#sealed(namespace, value);
    const updatedAt = this.#client.clock.now().toISOString();
    try {
      return await this.#secrets.create({
        apiVersion: rametApiVersion,
        kind: clientSecretKind.kind,
        metadata: { namespace, name: clientSecretName(name) },
        spec: { name, sealedValue, version: 1, updatedAt, ...defined({ metadata }) },
      });
    } catch (error) {
      if (RametError.from(error).code !== "AlreadyExists") throw error;
      throw new RametError("Conflict", `The secret ${name} exists`, { hint: "Update it, or choose another name" });
    }
  }

  /** Sandboxes use the new value within a minute. */
  async update(namespace: string, idOrName: string, { value, metadata }: Omit<NewClientSecret, "namespace" | "name">) {
    const found = await this.get(namespace, idOrName);
    const { uid, resourceVersion } = found.metadata;
    const sealedValue = await this.#sealed(namespace, value);
    const updatedAt = this.#client.clock.now().toISOString();
    return this.#secrets.mergePatch(found.metadata, {
      metadata: { uid, resourceVersion },
      spec: {
        sealedValue,
        updatedAt,
        version: found.spec.version + 1,
        ...(metadata && { metadata: { ...cleared(found), ...metadata } }),
      },
    });
  }

  /** @throws RametError `NotFound` */
  async get(namespace: string, idOrName: string): Promise<ClientSecret> {
    const found = idOrName.startsWith(idPrefix)
      ? (await this.list(namespace)).find((secret) => clientSecretId(secret) === idOrName)
      : await this.#secrets.find({ namespace, name: clientSecretName(idOrName) });
    if (found === undefined) throw new RametError("NotFound", `The secret ${idOrName.slice(0, 128)} does not exist`);
    return found;
  }

  async list(namespace: string): Promise<ClientSecret[]> {
    return (await this.#secrets.list({ namespace })).items;
  }

  async delete(namespace: string, idOrName: string): Promise<void> {
    const { metadata } = await this.get(namespace, idOrName);
    await this.#secrets.delete(metadata, { uid: metadata.uid });
  }

  async #sealed(namespace: string, value: string): Promise<string> {
    return sealFor(await this.#publicKey(), sealIdentity(namespace, "secret"), value);
  }

  async #publicKey(): Promise<string> {
    return (await this.#published()).publicKey;
  }
}

const idPrefix = "sec_";

/** The id that clients see. Names cannot have its prefix. */
export function clientSecretId({ metadata }: ClientSecret): string {
  return `${idPrefix}${metadata.uid.replaceAll("-", "")}`;
}

/** A merge patch removes what is null. */
function cleared({ spec }: ClientSecret): Record<string, null> {
  return Object.fromEntries(Object.keys(spec.metadata ?? {}).map((key) => [key, null]));
}
