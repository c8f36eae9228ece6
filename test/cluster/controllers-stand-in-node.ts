import { CellConfig } from "../../src/api/wire/cell-api.ts";
import type { EngineBuild } from "../../src/api/engine/engine.ts";
import { labels } from "../../src/api/names/labels.ts";
import { Pod } from "../../src/api/schema/pod.ts";

import { Informer } from "../../src/kube/informer.ts";
import type { KubeClient } from "../../src/kube/kube-client.ts";
import { keyOf } from "../../src/kube/object.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";
import { StandInCell, type StandInBehaviour } from "../contract/backends/stand-in-cell.ts";
import { addressBlock } from "../setup/address-block.ts";
import type { ClusterOptions } from "./controllers-cluster.ts";

export interface StandInNodeOptions {
  /** The cells' report on the node of a given name. A scheduler binds the Pods. @default the stand-in binds them, and cells report none */
  buildOn?: (nodeName: string) => EngineBuild;
}

/**
 * A stand-in for a node, or for all nodes of a cluster: immediately binds each Pod and starts a stand-in cell at a loopback address for it. Does not test
 * nodes; see `StandInCell` for what it does not test.
 */
export class StandInNode {
  /** The latest cell of each Pod, by `namespace/name`. */
  readonly cells = new Map<string, StandInCell>();
  /** Behaviour of the cells of future Pods, by `namespace/name`. */
  readonly behaviours = new Map<string, StandInBehaviour>();
  /** Pods that stay Pending, by `namespace/name`; the name of a namespace for all of its future Pods. */
  readonly ignored = new Set<string>();
  readonly #seen = new Set<string>();
  readonly #buildOn: StandInNodeOptions["buildOn"];
  #count = 0;

  constructor({ buildOn }: StandInNodeOptions = {}) {
    this.#buildOn = buildOn;
  }

  readonly start: ClusterOptions["startNode"] = async ({ client, signal }) => {
    const pods = new Informer({
      resource: client.resource(coreResources.pods, (value) => Pod.parse(value)),
      labelSelector: `${labels.cell}=true`,
    });
    const running = pods.run(signal);
    await pods.synced(signal);
    const work: Promise<void>[] = [];
    pods.onChange(({ type, object }) => {
      if (type !== "deleted") work.push(this.#admit(client, pods, object).catch(ignoreMissing));
    });
    return {
      stopped: running.then(async () => {
        await Promise.all(work);
        await Promise.all([...this.cells.values()].map((cell) => cell.close()));
      }),
    };
  };

  /** Starts the Pods of a namespace that was ignored. */
  async release(client: KubeClient, namespace: string): Promise<void> {
    this.ignored.delete(namespace);
    const pods = client.resource(coreResources.pods, (value) => Pod.parse(value));
    const { items } = await pods.list({ namespace });
    const metadata = { annotations: { "test.ramet.dev/released": "true" } };
    for (const pod of items) await pods.mergePatch(pod.metadata, { metadata });
  }

  async #admit(client: KubeClient, pods: Informer<Pod>, pod: Pod): Promise<void> {
    const key = keyOf(pod.metadata);
    if (pod.metadata.deletionTimestamp !== undefined) {
      await this.cells.get(key)?.close();
      await pods.resource.delete(pod.metadata, { uid: pod.metadata.uid, gracePeriodSeconds: 0 });
      return;
    }
    if (this.ignored.has(key) || this.ignored.has(pod.metadata.namespace) || this.#seen.has(pod.metadata.uid)) return;
    const { nodeName } = pod.spec;
    if (this.#buildOn !== undefined && nodeName === undefined) return;
    this.#seen.add(pod.metadata.uid);
    if (nodeName === undefined) await this.#bind(pods, pod);
    const behaviour = this.behaviours.get(key) ?? {};
    if (nodeName !== undefined && this.#buildOn !== undefined) behaviour.build = this.#buildOn(nodeName);
    const cell = new StandInCell(configOf(pod), this.#address(), behaviour);
    await cell.listen();
    this.cells.set(key, cell);
    cell.onStop = (reason) => {
      void this.end(pods, pod, { phase: "Succeeded", message: reason }).catch(ignoreMissing);
    };
    await this.#write(pods, pod, { phase: "Running", podIP: cell.ip, ready: "True" });
  }

  async #bind(pods: Informer<Pod>, pod: Pod): Promise<void> {
    const target = { apiVersion: "v1", kind: "Node", name: "stand-in" };
    const binding = { apiVersion: "v1", kind: "Binding", metadata: { name: pod.metadata.name }, target };
    await pods.resource.postSubresource(pod.metadata, "binding", binding);
  }

  /** Ends a Pod as if its process had exited. */
  async end(pods: Informer<Pod>, pod: Pod, how: { phase: "Succeeded" | "Failed"; message: string }): Promise<void> {
    await this.cells.get(keyOf(pod.metadata))?.close();
    await this.#write(pods, pod, { ...how, ready: "False" });
  }

  async #write(
    pods: Informer<Pod>,
    { metadata }: Pod,
    { ready, ...status }: { phase: string; podIP?: string; message?: string; ready: string },
  ): Promise<void> {
    const conditions = [{ type: "Ready", status: ready, lastTransitionTime: new Date().toISOString() }];
    const podIPs = status.podIP === undefined ? {} : { podIPs: [{ ip: status.podIP }] };
    await pods.resource.mergePatch(
      metadata,
      // A report about a deleted Pod must not reach its successor, which has the same name.
      { metadata: { uid: metadata.uid }, status: { ...status, ...podIPs, conditions } },
      { subresource: "status" },
    );
  }

  /** Returns an address outside the range of local clusters (127.64.0.0/10). */
  #address(): string {
    const number = this.#count++;
    return `127.${128 + Math.floor(number / 250)}.${addressBlock()}.${(number % 250) + 1}`;
  }
}

function configOf(pod: Pod): CellConfig {
  const env = pod.spec.containers[0]?.env?.find(({ name }) => name === "RAMET_CELL");
  return CellConfig.parse(JSON.parse(env?.value ?? ""));
}

function ignoreMissing(error: unknown): void {
  if (!/not found|NotFound|Conflict|modified|precondition/i.test(String(error))) console.error("stand-in node:", error);
}
