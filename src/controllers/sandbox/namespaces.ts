import { assertTemplateAllowed } from "../../api/pod/template-policy.ts";
import { annotations, labels } from "../../api/names/labels.ts";
import type { CellPodOptions } from "../../api/pod/cell-pod.ts";
import { parseCheckpointInterval, parseDisruptionPolicy } from "../../api/pod/disruption.ts";
import { defined } from "../../base/defined.ts";
import { parseLayerSize } from "../../base/quantity.ts";
import type { PodTemplateSpec } from "../../api/schema/pod-template.ts";
import type { KubeObject, ObjectName } from "../../kube/object.ts";

interface NamespaceClient {
  get: (at: ObjectName) => Promise<KubeObject>;
  mergePatch: (at: ObjectName, patch: object) => Promise<KubeObject>;
}

/**
 * The namespaces in which sandboxes start. A namespace is read from the API server for each Pod, because the informer may lag
 * behind, and a permission that an administrator withdraws must not apply to the next Pod. Sandboxes that start together share a
 * read.
 */
export class Namespaces {
  readonly #client: NamespaceClient;
  readonly #nodeCache: CellPodOptions["nodeCache"];
  readonly #reads = new Map<string, Promise<KubeObject>>();

  /** @param nodeCache the directory on each node that has those of the namespaces */
  constructor(client: NamespaceClient, nodeCache?: CellPodOptions["nodeCache"]) {
    this.#client = client;
    this.#nodeCache = nodeCache;
  }

  /**
   * Checks that a template may run in a namespace, and labels the namespace, so that the admission policy for `exec` covers it
   * before the first sandbox's Pod exists.
   * @throws RametError `Forbidden` that names a field of the template; `InvalidArgument` for an annotation that cannot be read
   */
  async admit(
    name: string,
    template: PodTemplateSpec,
  ): Promise<Pick<CellPodOptions, "layerBytes" | "nodeCache" | "onDisruption" | "checkpointEvery">> {
    const { annotations: given, uid } = (await this.#read(name)).metadata;
    assertTemplateAllowed(template, { name, annotations: given });
    const parsed = <T>(annotation: string, parse: (text: string, field: string) => T): T | undefined => {
      const text = given?.[annotation];
      return text === undefined ? undefined : parse(text, `The annotation ${annotation} of the namespace ${name}`);
    };
    const all = this.#nodeCache;
    return defined({
      // No later namespace has this UID, also if it has the name.
      nodeCache: all && { path: `${all.path}/${uid}`, sizeBytes: all.sizeBytes },
      layerBytes: parsed(annotations.writableLayerSize, parseLayerSize),
      onDisruption: parsed(annotations.onDisruption, parseDisruptionPolicy),
      checkpointEvery: parsed(annotations.checkpointEvery, parseCheckpointInterval),
    });
  }

  #read(name: string): Promise<KubeObject> {
    const underWay = this.#reads.get(name);
    if (underWay !== undefined) return underWay;
    const read = this.#labelled(name).finally(() => this.#reads.delete(name));
    this.#reads.set(name, read);
    return read;
  }

  async #labelled(name: string): Promise<KubeObject> {
    const found = await this.#client.get({ name });
    if (found.metadata.labels?.[labels.sandboxes] === "true") return found;
    return this.#client.mergePatch({ name }, { metadata: { labels: { [labels.sandboxes]: "true" } } });
  }
}
