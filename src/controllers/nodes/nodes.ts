import * as z from "zod";
import type { Log } from "../../base/log.ts";
import { Informer } from "../../kube/informer.ts";
import type { KubeClient } from "../../kube/kube-client.ts";
import { ObjectMeta } from "../../kube/object.ts";
import { coreResources } from "../../kube/resource-ref.ts";

/** The fields of a Node that are read here (Kubernetes API v1.36). The others, such as its images, are long and not kept. */
export const Node = z.object({
  metadata: ObjectMeta,
  spec: z.object({ unschedulable: z.boolean().optional() }).default({}),
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
    })
    .default({ runtimeHandlers: [], nodeInfo: { bootID: "" } }),
});
export type Node = z.infer<typeof Node>;

export function nodeInformer(client: KubeClient, log: Log): Informer<Node> {
  return new Informer({ resource: client.resource(coreResources.nodes, (value) => Node.parse(value)), log });
}
