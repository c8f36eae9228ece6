import { Config } from "@pulumi/pulumi";
import { SnapshotStack } from "ramet";

const config = new Config();
const stack = new SnapshotStack("snapshots", {
  cloud: "eks",
  eks: {
    clusterName: config.require("cluster"),
    // Other clusters of the account cannot restore what this one has taken.
    scope: "cluster",
    tags: { "cost-center": config.get("costCenter") ?? "agents" },
  },
  classes: [
    {
      driver: "ebs.csi.aws.com",
      ebs: { tags: { namespace: "{{ .VolumeSnapshotNamespace }}", snapshot: "{{ .VolumeSnapshotName }}" } },
    },
  ],
});

export const classes = stack.classNames;
export const missing = stack.facts.missing;
