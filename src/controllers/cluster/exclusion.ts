import { labels } from "../../api/names/labels.ts";
import type { Log } from "../../base/log.ts";
import { Informer } from "../../kube/informer.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { type KubeObject, parseObject } from "../../kube/object.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import type { ObjectStore } from "../../kube/store.ts";

interface ExclusionOptions {
  namespaceSelector?: string | undefined;
  namespaces?: readonly string[] | undefined;
}

/**
 * Decides which objects no controller sees: those with the label `ramet.dev/ignore`, and with a selector those outside the
 * namespaces that it selects. A namespace that is not known yet is not selected. The API server evaluates the selector.
 */
export class Exclusion {
  /** The selected namespaces; undefined: all are. */
  readonly namespaces: Informer<KubeObject> | undefined;

  /** @param options.namespaces the only namespaces that the controllers serve. Default: all */
  constructor(client: KubeClient, { namespaceSelector: labelSelector, namespaces }: ExclusionOptions, log: Log) {
    if (labelSelector === undefined) return;
    const resource = client.resource(coreResources.namespaces, parseObject);
    this.namespaces = new Informer({ resource, namespaces, labelSelector, log });
  }

  readonly excludes = ({ metadata }: KubeObject): boolean => {
    if (metadata.labels?.[labels.ignore] === "true") return true;
    if (this.namespaces === undefined || metadata.namespace === undefined) return false;
    return this.namespaces.store.get(metadata.namespace) === undefined;
  };

  /** From now on, a change of the selected namespaces takes effect on these objects. */
  follow(stores: readonly Pick<ObjectStore<KubeObject>, "reconsider">[]): void {
    this.namespaces?.store.subscribe(({ type, object: { metadata } }) => {
      if (type === "updated") return;
      for (const store of stores) store.reconsider((object) => object.metadata.namespace === metadata.name);
    });
  }
}
