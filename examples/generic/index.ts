import { Config } from "@pulumi/pulumi";
import { SnapshotStack } from "ramet";

// The cluster already has a CSI driver, such as rbd.csi.ceph.com.
const driver = new Config().require("driver");
const stack = new SnapshotStack("snapshots", {
  cloud: "generic",
  classes: [{ driver, default: "checkpoint-retain" }],
});

export const classes = stack.classNames;
export const findings = stack.facts.findings;
