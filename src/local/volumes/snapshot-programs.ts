import { join } from "node:path";
import { packageRoot, type Tool } from "../tools/tool.ts";

/**
 * The socket of the CSI driver. Every process of a cluster runs in its directory, whose path may be longer than the 107 bytes of a
 * socket's path.
 */
export const localDriverSocket = "/proc/self/cwd/csi.sock";

/** The programs of external-snapshotter that a local cluster runs. */
export const snapshotProgramNames = ["snapshot-controller", "csi-snapshotter"] as const;
export type SnapshotProgramName = (typeof snapshotProgramNames)[number];

/** The arguments of a program. There is one of each, so none waits for a lease; the API server is on this machine. */
export function snapshotProgramArguments(
  name: SnapshotProgramName,
  { kubeconfig, socket }: { kubeconfig: string; socket: string },
): string[] {
  const shared = [
    `--kubeconfig=${kubeconfig}`,
    "--leader-election=false",
    "--kube-api-qps=100",
    "--kube-api-burst=200",
    // On by default since v8.7.
    "--feature-gates=CSIVolumeGroupSnapshot=true",
  ];
  if (name === "snapshot-controller") return shared;
  // A copy may take long. The driver refuses repeated requests until it has ended, and continues it meanwhile.
  return [...shared, `--csi-address=${socket}`, "--timeout=10m", "--extra-create-metadata"];
}

/** How to acquire a program. external-snapshotter publishes images and no programs, so it is built if it is not on the PATH. */
export function pinnedSnapshotProgram(name: SnapshotProgramName): Promise<Tool> {
  // Also in the go.mod of the module.
  const version = "8.7.0";
  return Promise.resolve({
    name,
    version,
    fits: (printed) => printed.includes(` v${version.replace(/\.\d+$/, ".")}`),
    build: {
      module: join(packageRoot(), "tools", "external-snapshotter"),
      package: `github.com/kubernetes-csi/external-snapshotter/v8/cmd/${name}`,
      set: { "main.version": `v${version}` },
      coldSeconds: 130,
    },
  });
}
