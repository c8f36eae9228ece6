import { systemNamespace } from "../../api/names/system-names.ts";
import { RametError } from "../../base/errors.ts";
import { StaleOnErrorCache } from "../../base/stale-on-error-cache.ts";
import type { KubeObject } from "../../kube/object.ts";
import type { ResourceClient } from "../../kube/resource-client.ts";

export interface SystemReaderOptions<T extends KubeObject, V> {
  resource: ResourceClient<T>;
  name: string;
  valueOf: (object: T) => V;
  /** The message and the hint while the object cannot be read. */
  failure: string;
  hint: string;
}

/**
 * Returns a function that reads a value from an object of the system's namespace, and that notices a change after a few seconds. It
 * throws RametError `Unavailable`.
 */
export function systemReader<T extends KubeObject, V>(options: SystemReaderOptions<T, V>): () => Promise<V> {
  const { resource, name, valueOf, failure, hint } = options;
  const caching = { clock: resource.client.clock, freshMilliseconds: 10_000, staleMilliseconds: 300_000 };
  const cache = new StaleOnErrorCache<V>({ ...caching, isRefusal: () => false });
  const read = async (): Promise<V> => {
    try {
      return valueOf(await resource.get({ namespace: systemNamespace, name }));
    } catch (cause) {
      throw new RametError("Unavailable", failure, { retryable: true, hint, cause });
    }
  };
  return () => cache.get("", read);
}
