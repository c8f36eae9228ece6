import { defaultQuota, type NamespaceQuota, quotaOf } from "../../api/quota/namespace-quota.ts";
import { RametError } from "../../base/errors.ts";
import type { Informers } from "./resources.ts";

/** The quotas of namespaces, from the informers' cache: a change applies to what starts after it. */
export class NamespaceQuotas {
  readonly #namespaces: Informers["namespaces"];
  readonly #defaults: NamespaceQuota;

  constructor(namespaces: Informers["namespaces"], defaults: Partial<NamespaceQuota> = {}) {
    this.#namespaces = namespaces;
    this.#defaults = { ...defaultQuota, ...defaults };
  }

  /** The limits, or why they are unknown: then nothing that they limit may start. */
  of(name: string): NamespaceQuota | { problem: RametError } {
    const { annotations } = this.#namespaces.store.get(name)?.metadata ?? {};
    try {
      return quotaOf({ name, annotations }, this.#defaults);
    } catch (error) {
      return { problem: RametError.from(error) };
    }
  }
}
