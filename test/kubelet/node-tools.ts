import { join } from "node:path";
import type { Tool } from "../../src/local/tools/tool.ts";
import {
  pinnedSnapshotProgram,
  snapshotProgramNames,
  type SnapshotProgramName,
} from "../../src/local/volumes/snapshot-programs.ts";

const kubernetes = { version: "1.36.3", module: "kubelet", directory: "k8s.io/kubernetes/cmd", coldSeconds: 120 };
const containerd = {
  version: "2.4.2",
  module: "containerd",
  directory: "github.com/containerd/containerd/v2/cmd",
  coldSeconds: 60,
};

const pinned = {
  kubelet: kubernetes,
  "kube-controller-manager": kubernetes,
  "kube-scheduler": kubernetes,
  kubectl: kubernetes,
  containerd,
  "containerd-shim-runc-v2": containerd,
  ctr: containerd,
} as const;

/** A program of the cluster. Its version is also in `test/tools/{kubelet,containerd}/go.mod`. */
export type NodeToolName = keyof typeof pinned | SnapshotProgramName;

export const nodeToolNames = [...(Object.keys(pinned) as (keyof typeof pinned)[]), ...snapshotProgramNames];

export function pinnedNodeTool(name: NodeToolName): Promise<Tool> {
  if (name === "snapshot-controller" || name === "csi-snapshotter") return pinnedSnapshotProgram(name);
  const { version, directory, coldSeconds, ...from } = pinned[name];
  const module = join(import.meta.dirname, "..", "tools", from.module);
  const symbol = "k8s.io/component-base/version";
  const set: Record<string, string> =
    directory === kubernetes.directory
      ? { [`${symbol}.gitVersion`]: `v${version}`, [`${symbol}.gitMajor`]: "1", [`${symbol}.gitMinor`]: "36" }
      : {};
  return Promise.resolve({ name, version, build: { module, package: `${directory}/${name}`, set, coldSeconds } });
}
