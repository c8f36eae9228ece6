import * as z from "zod";
import type { PodTemplateSpec } from "../../api/schema/pod-template.ts";
import type { Log } from "../../base/log.ts";
import { Informer } from "../../kube/informer.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { ObjectMeta } from "../../kube/object.ts";
import { coreResources } from "../../kube/resource-ref.ts";

/** Follows which nodes can give a Pod a user namespace, as each kubelet reports it for its kernel and runtime. */
export class UserNamespaceSupport {
  readonly informer: Informer<Node>;
  readonly #log: Log;
  #reported: string | undefined;

  constructor(client: KubeClient, log: Log) {
    this.#log = log;
    this.informer = new Informer({ resource: client.resource(coreResources.nodes, (value) => Node.parse(value)), log });
  }

  /**
   * Whether a Pod of this template can have a user namespace wherever it is scheduled. A Pod's user namespace cannot be changed
   * after its creation, which precedes its scheduling.
   */
  readonly covers = (template: PodTemplateSpec): boolean => {
    const without = nodesWithoutUserNamespaces(this.informer.store.list());
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

/** The names of schedulable nodes whose default runtime handler does not support user namespaces. */
export function nodesWithoutUserNamespaces(nodes: readonly Node[]): string[] {
  const schedulable = nodes.filter(({ spec }) => spec.unschedulable !== true);
  if (schedulable.length === 0) return ["none is schedulable"];
  return schedulable.filter((node) => !supports(node)).map(({ metadata }) => metadata.name);
}

function supports({ status }: Node): boolean {
  const byDefault = status.runtimeHandlers.find(({ name }) => name === "");
  return byDefault?.features?.userNamespaces === true;
}

/** The fields of a Node that are read here (Kubernetes API v1.36, NodeRuntimeHandler). */
const Node = z.looseObject({
  metadata: ObjectMeta,
  spec: z.looseObject({ unschedulable: z.boolean().optional() }).default({}),
  status: z
    .looseObject({
      runtimeHandlers: z
        .array(
          z.looseObject({
            name: z.string().default(""),
            features: z.looseObject({ userNamespaces: z.boolean().optional() }).optional(),
          }),
        )
        .default([]),
    })
    .default({ runtimeHandlers: [] }),
});
type Node = z.infer<typeof Node>;
