import { guestKeySecret, guestSecretEntry, systemNamespace } from "../api/names/system-names.ts";
import { RametError } from "../base/errors.ts";
import { StaleOnErrorCache } from "../base/stale-on-error-cache.ts";
import { within } from "../base/within.ts";
import type { KubeClient } from "./kube-client.ts";
import { type KubeObject, secretBytes } from "./object.ts";
import type { ResourceClient } from "./resource-client.ts";

export interface SystemReaderOptions<T extends KubeObject, V> {
  resource: ResourceClient<T>;
  name: string;
  valueOf: (object: T) => V;
  /** The message and the hint while the object cannot be read. */
  failure: string;
  hint: string;
}

/**
 * Returns a function that reads a value from an object of the system's namespace when it is needed, and that notices a change after a
 * few seconds. While the API server does not respond, the value is kept for some minutes. It throws RametError `Unavailable`.
 */
export function systemReader<T extends KubeObject, V>(options: SystemReaderOptions<T, V>): () => Promise<V> {
  const { resource, name, valueOf, failure, hint } = options;
  const { clock } = resource.client;
  const caching = { clock, freshMilliseconds: 10_000, staleMilliseconds: 300_000 };
  const cache = new StaleOnErrorCache<V>({ ...caching, isRefusal: () => false });
  const read = async (): Promise<V> => {
    const deadline = { clock, milliseconds: 3_000, what: `Reading ${name}` };
    try {
      return valueOf(
        await within(deadline, (signal) => resource.get({ namespace: systemNamespace, name }, { signal })),
      );
    } catch (cause) {
      throw new RametError("Unavailable", failure, { retryable: true, hint, cause });
    }
  };
  return () => cache.get("", read);
}

/** Reads the secret from which the tokens of sandboxes are derived. @param reader the server in messages: `the gateway` */
export function guestSecretReader(client: KubeClient, reader: string): () => Promise<Buffer> {
  return systemReader({
    resource: client.secrets,
    name: guestKeySecret,
    valueOf: (secret) => secretBytes(secret, guestSecretEntry),
    failure: "The secret from which access tokens are derived cannot be read",
    hint: `Check that the controllers have created the Secret ${guestKeySecret} in ${systemNamespace}, and that ${reader} may get it`,
  });
}
