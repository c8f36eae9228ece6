import type { KubeClient } from "../../src/kube/kube-client.ts";
import { coreResources } from "../../src/kube/resource-ref.ts";

interface Parts {
  annotations?: Record<string, string>;
  labels?: Record<string, string>;
}

/** Nodes that are objects: a stand-in runs their Pods, or nothing does. */
export function nodeObjects(client: () => KubeClient) {
  const nodes = () => client().resource(coreResources.nodes);
  const patch = (name: string, change: object) => nodes().mergePatch({ name }, change);
  return {
    /** Creates a node that is ready. */
    add: async (name: string, { annotations = {}, labels: own = {} }: Parts = {}): Promise<void> => {
      const labels = { "kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", ...own };
      await nodes().create({ apiVersion: "v1", kind: "Node", metadata: { name, labels, annotations } });
      const size = { cpu: "16", memory: "64Gi", pods: "100" };
      const conditions = [{ type: "Ready", status: "True", reason: "StandIn", message: "" }];
      const status = { capacity: size, allocatable: size, conditions, nodeInfo: { bootID: `boot-${name}` } };
      await nodes().mergePatch({ name }, { status }, { subresource: "status" });
      // The controller of nodes, which does not run here, removes the taint of a new node.
      await patch(name, { spec: { taints: null } });
    },
    remove: async (name: string): Promise<void> => {
      await nodes().delete({ name }, {});
    },
    /** As a kubelet reports that it ends the Pods for a shutdown of the machine. */
    shutDown: (name: string) => {
      const ready = { type: "Ready", status: "False", reason: "KubeletNotReady", message: "node is shutting down" };
      return nodes().mergePatch({ name }, { status: { conditions: [ready] } }, { subresource: "status" });
    },
    cordon: (name: string, unschedulable: boolean) => patch(name, { spec: { unschedulable } }),
    /** Replaces the taints. */
    taint: (name: string, ...keys: string[]) =>
      patch(name, { spec: { taints: keys.map((key) => ({ key, effect: "NoSchedule" })) } }),
    /** As `taint`. No controller here ends the Pods that do not tolerate it. */
    evict: (name: string, key: string) => patch(name, { spec: { taints: [{ key, effect: "NoExecute" }] } }),
  };
}
