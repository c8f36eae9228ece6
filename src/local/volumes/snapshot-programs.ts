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
    // The group CRDs are not installed.
    "--feature-gates=CSIVolumeGroupSnapshot=false",
  ];
  if (name === "snapshot-controller") return shared;
  // A copy may take long. The driver refuses repeated requests until it has ended, and continues it meanwhile.
  return [...shared, `--csi-address=${socket}`, "--timeout=10m", "--extra-create-metadata"];
}
