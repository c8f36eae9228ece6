import type { ApiKey } from "../../api/kinds/api-key.ts";
import { type ApiKeyLimits, type KeyValue, limitsOfKey, userOfKey } from "../../api/keys/api-key-rules.ts";
import { apiKeyDigest, apiKeyId, readApiKey } from "../../api/keys/api-key-text.ts";
import { RametError } from "../../base/errors.ts";
import type { Log } from "../../base/log.ts";
import { StaleOnErrorCache } from "../../base/stale-on-error-cache.ts";
import { isAllowed, type ResourceAttributes } from "../../kube/access-review.ts";
import { ApiKeys } from "../../kube/api-keys.ts";
import type { Informer } from "../../kube/informer.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import { Rates } from "../../base/slots.ts";

/** A client with a valid key, and the value of the key that it has sent. */
export interface Caller extends KeyValue {
  namespace: string;
  user: { user: string; groups?: readonly string[] };
  /** The service account of the key. */
  serviceAccount: string;
  limits: ApiKeyLimits;
}

/** A right that a request needs in the key's namespace, in the words of RBAC. */
export type Need = Omit<ResourceAttributes, "namespace">;

/** A revoked permission stays effective for this long. A revoked key does not. */
const freshMilliseconds = 10_000;
/** The same while the API server does not respond. */
const staleMilliseconds = 300_000;

type ReadKey = NonNullable<ReturnType<typeof readApiKey>>;

/** Authenticates clients by their keys, and authorizes them as the service accounts of these keys. */
export class Callers {
  readonly #client: KubeClient;
  readonly #keys: ApiKeys;
  readonly informer: Informer<ApiKey>;
  readonly #byId: (id: string) => ApiKey[];
  readonly #accounts: StaleOnErrorCache<boolean>;
  readonly #decisions: StaleOnErrorCache<boolean>;
  /** The requests of each key. */
  readonly rates: Rates;

  constructor(client: KubeClient, options: { log: Log; namespaces?: readonly string[] | undefined }) {
    this.#client = client;
    this.rates = new Rates(client.clock);
    this.#keys = new ApiKeys(client, options);
    this.informer = this.#keys.informer;
    this.#byId = this.informer.store.index(({ metadata: { namespace, name } }) => [apiKeyId({ namespace, name })]);
    const caching = { clock: client.clock, freshMilliseconds, staleMilliseconds };
    this.#accounts = new StaleOnErrorCache({ ...caching, isRefusal: (exists) => !exists });
    this.#decisions = new StaleOnErrorCache({ ...caching, isRefusal: (allowed) => !allowed });
  }

  /**
   * Returns the client that a key belongs to.
   * @param address of the peer, for limits
   * @throws RametError `Unauthorized`; `Unavailable` while the API server does not respond
   */
  async authenticate(text: string | undefined, address: string): Promise<Caller> {
    if (text === undefined || text === "") throw unauthorized("The request has no API key");
    const read = readApiKey(text);
    const key = read && (this.#find(read) ?? (await this.#keys.appearing(() => this.#find(read), address)));
    if (read === undefined || key === undefined) throw unauthorized("The API key is not valid, or it was revoked");
    return this.#callerOf(key, apiKeyDigest(key.metadata, read.digits));
  }

  async #callerOf(key: ApiKey, digest: string): Promise<Caller> {
    const { namespace, name } = key.metadata;
    const account = { namespace, name: key.spec.serviceAccountName };
    if (!(await this.#exists(account)))
      throw unauthorized(`The service account ${account.name} of the API key does not exist`);
    return {
      namespace,
      key: `${namespace}/${name}`,
      digest,
      user: userOfKey(key),
      serviceAccount: account.name,
      limits: limitsOfKey(key.spec),
    };
  }

  /** The limits of a key; undefined if this value of it was revoked or has expired. */
  limitsOf(value: KeyValue): ApiKeyLimits | undefined {
    const accepted = this.#keys.accepted(value);
    return accepted && limitsOfKey(accepted.spec);
  }

  /** As `ApiKeys.endWhenRevoked`, and calls `end` soon after the account of the key has lost one of the rights. */
  endWhenRevoked(value: KeyValue, end: () => void, needs: readonly Need[] = []): () => void {
    const { clock } = this.#client;
    let cancelReview = (): void => undefined;
    let isOver = false;
    const review = (): void => {
      if (needs.length === 0 || isOver) return;
      cancelReview = clock.schedule(freshMilliseconds, () => {
        this.requireStill(value, needs).then(review, (error: unknown) => {
          // Without the API server nothing is known, as for new requests.
          if (lostRights.has(RametError.from(error).code)) end();
          else review();
        });
      });
    };
    const over = this.#keys.endWhenRevoked(value, end);
    review();
    return () => {
      isOver = true;
      over();
      cancelReview();
    };
  }

  /**
   * Requires that a value of a key is still valid, and that its account still has the rights.
   * @throws RametError `Unauthorized`; `Forbidden`; `Unavailable` while the API server does not respond
   */
  async requireStill(value: KeyValue, needs: readonly Need[]): Promise<void> {
    const key = this.#keys.accepted(value);
    if (key === undefined) throw unauthorized("The API key was revoked");
    await this.require(await this.#callerOf(key, value.digest), ...needs);
  }

  #find({ id, digits }: ReadKey): ApiKey | undefined {
    return this.#byId(id).find((each) => this.#keys.accepts(each, apiKeyDigest(each.metadata, digits)));
  }

  #exists(account: { namespace: string; name: string }): Promise<boolean> {
    const accounts = this.#client.resource(coreResources.serviceAccounts);
    return this.#accounts.get(`${account.namespace}/${account.name}`, async () => {
      const found = await accounts.find(account).catch(unavailable);
      return found !== undefined;
    });
  }

  /** @throws RametError `Forbidden`; `Unavailable` while the API server does not respond */
  async require({ user, namespace }: Caller, ...needs: readonly Need[]): Promise<void> {
    for (const need of needs) {
      const attributes = { namespace, ...need };
      const decide = () => isAllowed(this.#client, user, attributes).catch(unavailable);
      if (!(await this.#decisions.get(JSON.stringify([user.user, attributes]), decide)))
        throw forbidden(user, attributes);
    }
  }
}

function unauthorized(why: string): RametError {
  return new RametError("Unauthorized", why, {
    hint: "Send a key that `ramet key create` printed, in the header X-API-Key or as a bearer token",
  });
}

function forbidden({ user }: Caller["user"], { namespace, verb, resource, subresource, group }: ResourceAttributes) {
  const what = subresource === undefined ? resource : `${resource}/${subresource}`;
  return new RametError("Forbidden", `${user} may not ${verb} ${what} in the namespace ${namespace ?? ""}`, {
    hint: `Grant the verb ${verb} on ${what} of the API group ${group} by a Role in that namespace`,
  });
}

/** The client must not see the API server's errors about the server's own rights. */
function unavailable(cause: unknown): never {
  const { message } = RametError.from(cause);
  throw new RametError("Unavailable", `The API server cannot check the API key: ${message}`, {
    retryable: true,
    cause,
  });
}

const lostRights: ReadonlySet<string> = new Set(["Unauthorized", "Forbidden"]);
