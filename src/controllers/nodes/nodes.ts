import * as z from "zod";
import type { Log } from "../../base/log.ts";
import { Informer } from "../../kube/informer.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { ObjectMeta } from "../../kube/object.ts";
import { coreResources } from "../../kube/resource-ref.ts";
import { Taint } from "../../api/state/node.ts";
import type { PodTemplateSpec } from "../../api/schema/pod-template.ts";

/** The fields of a Node that are read here (Kubernetes API v1.36). The others, such as its images, are long and not kept. */
export const Node = z.object({
  metadata: ObjectMeta,
  spec: z.object({ unschedulable: z.boolean().optional(), taints: z.array(Taint).optional() }).default({}),
  status: z
    .object({
      runtimeHandlers: z
        .array(
          z.object({
            name: z.string().default(""),
            features: z.object({ userNamespaces: z.boolean().optional() }).optional(),
          }),
        )
        .default([]),
      /** `bootID` changes whenever the machine starts. */
      nodeInfo: z.object({ bootID: z.string().default("") }).default({ bootID: "" }),
      /** A kubelet reports how much ephemeral storage Pods can have, and evicts those that exceed their limit. */
      allocatable: z.record(z.string(), z.union([z.string(), z.number()])).optional(),
      conditions: z.array(z.object({ type: z.string(), status: z.string(), message: z.string().nullish() })).optional(),
    })
    .default({ runtimeHandlers: [], nodeInfo: { bootID: "" } }),
});
export type Node = z.infer<typeof Node>;

export function nodeInformer(client: KubeClient, log: Log): Informer<Node> {
  return new Informer({ resource: client.resource(coreResources.nodes, (value) => Node.parse(value)), log });
}

/** Follows which nodes can give a Pod a user namespace, as each kubelet reports it for its kernel and runtime. */
export class UserNamespaceSupport {
  readonly #nodes: Pick<Informer<Node>, "store">;
  readonly #log: Log;
  #reported: string | undefined;

  constructor(nodes: Pick<Informer<Node>, "store">, log: Log) {
    this.#nodes = nodes;
    this.#log = log;
  }

  /**
   * Whether a Pod of this template can have a user namespace wherever it is scheduled. A Pod's user namespace cannot be changed
   * after its creation, which precedes its scheduling.
   */
  readonly covers = (template: PodTemplateSpec): boolean => {
    const without = nodesWithoutUserNamespaces(this.#nodes.store.list());
    this.#report(without);
    // Another runtime handler, such as another gVisor, may support less than the default one.
    return without.length === 0 && template.spec["runtimeClassName"] === undefined;
  };

  #report(without: string[]): void {
    const nodes = without.join(", ");
    if (this.#reported === nodes) return;
    this.#reported = nodes;
    if (nodes === "") this.#log.info({}, "cells run in user namespaces: all schedulable nodes support them");
    else this.#log.warn({ nodes }, "cells run without user namespaces: schedulable nodes do not support them");
  }
}

/**
 * The names of nodes whose default runtime handler does not support user namespaces: of the schedulable ones, or of all if none is. A Pod
 * of a sandbox whose only node is drained waits for one of them.
 */
export function nodesWithoutUserNamespaces(nodes: readonly NodeSupport[]): string[] {
  const schedulable = nodes.filter(({ spec }) => spec.unschedulable !== true);
  const judged = schedulable.length === 0 ? nodes : schedulable;
  if (judged.length === 0) return ["none is known"];
  return judged.filter((node) => !supports(node)).map(({ metadata }) => metadata.name);
}

type NodeSupport = Pick<Node, "metadata" | "spec"> & { status: Pick<Node["status"], "runtimeHandlers"> };

function supports({ status }: NodeSupport): boolean {
  const byDefault = status.runtimeHandlers.find(({ name }) => name === "");
  return byDefault?.features?.userNamespaces === true;
}
