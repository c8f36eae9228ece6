import { join } from "node:path";
import type { Tool } from "../../src/local/tools/tool.ts";

const kubernetes = { version: "1.36.3", module: "kubelet", directory: "k8s.io/kubernetes/cmd", coldSeconds: 120 };
const containerd = {
  version: "2.4.2",
  module: "containerd",
  directory: "github.com/containerd/containerd/v2/cmd",
  coldSeconds: 60,
};

const externalSnapshotter = {
  version: "8.7.0",
  module: "snapshot-controller",
  directory: "github.com/kubernetes-csi/external-snapshotter/v8/cmd",
  coldSeconds: 130,
};

const pinned = {
  kubelet: kubernetes,
  "kube-controller-manager": kubernetes,
  "kube-scheduler": kubernetes,
  kubectl: kubernetes,
  containerd,
  "containerd-shim-runc-v2": containerd,
  ctr: containerd,
  "snapshot-controller": externalSnapshotter,
  "csi-snapshotter": externalSnapshotter,
} as const;

/** A program of the cluster. Its version is also in `test/tools/{kubelet,containerd,snapshot-controller}/go.mod`. */
export type NodeToolName = keyof typeof pinned;

export const nodeToolNames = Object.keys(pinned) as NodeToolName[];

export function pinnedNodeTool(name: NodeToolName): Promise<Tool> {
  const { version, directory, coldSeconds, ...from } = pinned[name];
  const module = join(import.meta.dirname, "..", "tools", from.module);
  const symbol = "k8s.io/component-base/version";
  const set: Record<string, string> =
    directory === kubernetes.directory
      ? { [`${symbol}.gitVersion`]: `v${version}`, [`${symbol}.gitMajor`]: "1", [`${symbol}.gitMinor`]: "36" }
      : {};
  return Promise.resolve({ name, version, build: { module, package: `${directory}/${name}`, set, coldSeconds } });
}
