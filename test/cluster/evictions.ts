import { annotations } from "../../src/api/names/labels.ts";
import type { Sandbox } from "../../src/api/kinds/sandbox.ts";
import type { Cluster } from "./controllers-cluster.ts";
import { counterTemplate } from "./counter.ts";

/** Counting sandboxes of the namespace `t`, whose Pods are ended. */
export class Evictions {
  readonly #cluster: () => Cluster;

  constructor(cluster: () => Cluster) {
    this.#cluster = cluster;
  }

  async create(name: string, policy?: string, spec: object = {}): Promise<Sandbox> {
    const template = {
      ...counterTemplate,
      ...(policy !== undefined && { metadata: { annotations: { [annotations.onDisruption]: policy } } }),
    };
    const apiVersion = "agents.kruise.io/v1alpha1";
    const metadata = { name, namespace: "t" };
    await this.#cluster().create({ apiVersion, kind: "Sandbox", metadata, spec: { template, ...spec } });
    return this.#cluster().sandbox(`t/${name}`, ({ status }) => status?.phase === "Running");
  }

  /**
   * As the eviction API asks for it.
   * @param gracePeriodSeconds @default the Pod's
   */
  evict(name: string, gracePeriodSeconds?: number): Promise<unknown> {
    const metadata = { name, namespace: "t" };
    return this.#cluster().seen.pods.resource.postSubresource(metadata, "eviction", {
      apiVersion: "policy/v1",
      kind: "Eviction",
      metadata,
      ...(gracePeriodSeconds !== undefined && { deleteOptions: { gracePeriodSeconds } }),
    });
  }

  /** The sandbox, when it runs in another Pod. */
  continued(before: Sandbox): Promise<Sandbox> {
    return this.#cluster().sandbox(
      `t/${before.metadata.name}`,
      (now) => now.status?.phase === "Running" && podUID(now) !== podUID(before),
    );
  }
}

export const podUID = ({ status }: Sandbox) => status?.podInfo?.podUID;
