import { Config } from "@pulumi/pulumi";
import { RametRuntime, SnapshotStack } from "ramet";

const config = new Config();
const stack = new SnapshotStack("snapshots", {
  cloud: "eks",
  eks: {
    clusterName: config.require("cluster"),
    // Other clusters in the account cannot restore the snapshots of this cluster.
    scope: "cluster",
    tags: { "cost-center": config.get("costCenter") ?? "agents" },
    store: { bucket: config.require("bucket") },
  },
  classes: [
    {
      driver: "ebs.csi.aws.com",
      ebs: { tags: { namespace: "{{ .VolumeSnapshotNamespace }}", snapshot: "{{ .VolumeSnapshotName }}" } },
    },
  ],
});
// The controllers store checkpoints in that bucket, with the role that the stack creates for them.
const ramet = new RametRuntime("ramet", {
  image: config.require("image"),
  cellImage: config.require("cellImage"),
  store: stack.store,
});

export const classes = stack.classNames;
export const findings = stack.facts.findings;
export const mode = ramet.mode;
