import type { KeyValue } from "../api/keys/api-key-rules.ts";
import { apiKeyDigest, apiKeyId, keyValueId, readApiKey } from "../api/keys/api-key-text.ts";
import type { ApiKey } from "../api/kinds/api-key.ts";
import type { ApiKeys } from "../kube/api-keys.ts";
import type { ClientRequest } from "./exchange.ts";
import { Refusal } from "./refusal.ts";

/** As for tokens for gateways: the gateway uses what it knows while the API server does not respond for this long. */
const staleMilliseconds = 300_000;

/** A link does not name the key with whose token it was signed, so the gateway tries this many. */
export const mostSigners = 250;

export interface Signer {
  value: KeyValue;
  /** As tokens have it. */
  id: string;
}

/** The values of API keys that the tokens of clients name. */
export class ClientKeys {
  readonly #keys: ApiKeys;
  readonly #byId: (id: string) => ApiKey[];
  readonly #byKeyId: (id: string) => ApiKey[];
  readonly #ofNamespace: (namespace: string) => ApiKey[];
  /** By namespace, until a key of it changes. */
  readonly #signers = new Map<string, Signer[]>();

  constructor(keys: ApiKeys) {
    this.#keys = keys;
    const { store } = keys.informer;
    this.#byId = store.index((key) => valuesOf(key).map(keyValueId));
    this.#byKeyId = store.index(({ metadata }) => [apiKeyId(metadata)]);
    this.#ofNamespace = store.index(({ metadata: { namespace } }) => [namespace]);
    store.subscribe(({ object: { metadata } }) => this.#signers.delete(metadata.namespace));
  }

  /**
   * Finds the value that a token for a sandbox of this namespace names.
   * @returns undefined if it was revoked or has expired
   * @throws Refusal `Unavailable` if the gateway does not know the keys
   */
  async find(namespace: string, valueId: string): Promise<KeyValue | undefined> {
    this.#requireKnown(namespace);
    const find = (): KeyValue | undefined =>
      this.#byId(valueId)
        .filter((key) => key.metadata.namespace === namespace)
        .flatMap(valuesOf)
        .find((value) => keyValueId(value) === valueId && this.isValid(value));
    return find() ?? (await this.#keys.appearing(find, namespace));
  }

  /**
   * The valid values of keys with which a request to the client API can have been sent.
   * @param address of the client, whose requests with unknown keys wait a moment
   */
  async sentBy({ headers, url }: Pick<ClientRequest, "headers" | "url">, address: string): Promise<KeyValue[]> {
    const bearer = /^Bearer (.+)$/i.exec(headers.authorization ?? "")?.[1];
    // Terminals of AgentTier have it in their query.
    const texts = [[headers["x-api-key"]].flat()[0], bearer, new URLSearchParams(url.split("?")[1]).get("token")];
    const found = texts.map(async (text) => {
      const read = readApiKey(text ?? "");
      if (read === undefined) return [];
      const find = (): KeyValue | undefined =>
        this.#byKeyId(read.id)
          .map(({ metadata }) => ({
            key: `${metadata.namespace}/${metadata.name}`,
            digest: apiKeyDigest(metadata, read.digits),
          }))
          .find((value) => this.isValid(value));
      return find() ?? (await this.#keys.appearing(find, address)) ?? [];
    });
    return (await Promise.all(found)).flat();
  }

  /**
   * The values of a namespace with which links can be signed, those of the oldest keys first. Some can have expired since.
   * @throws Refusal `Unavailable` if the gateway does not know the keys
   */
  signers(namespace: string): readonly Signer[] {
    this.#requireKnown(namespace);
    const known = this.#signers.get(namespace);
    if (known !== undefined) return known;
    const keys = this.#ofNamespace(namespace).sort((a, b) => (ageOf(a) < ageOf(b) ? -1 : 1));
    const values = keys.flatMap(valuesOf).filter((value) => this.isValid(value));
    const signers = values.slice(0, mostSigners).map((value) => ({ value, id: keyValueId(value) }));
    // A name that a stranger has made up is not kept.
    if (signers.length > 0) this.#signers.set(namespace, signers);
    return signers;
  }

  isValid(value: KeyValue): boolean {
    return this.#keys.accepted(value) !== undefined;
  }

  endWhenRevoked(value: KeyValue, end: () => void): () => void {
    return this.#keys.endWhenRevoked(value, end);
  }

  #requireKnown(namespace: string): void {
    const { informer } = this.#keys;
    if (!informer.follows(namespace) || informer.silentMilliseconds(namespace) < staleMilliseconds) return;
    throw new Refusal("Unavailable", "The gateway cannot check the access token: it cannot read the API keys", {
      isShort: true,
      retryable: true,
    });
  }
}

function valuesOf({ metadata: { namespace, name }, spec: { digests } }: ApiKey): KeyValue[] {
  return digests.map(({ digest }) => ({ key: `${namespace}/${name}`, digest }));
}

/** The order is that of the names for keys of the same second. */
function ageOf({ metadata: { creationTimestamp, name } }: ApiKey): string {
  return `${creationTimestamp} ${name}`;
}
