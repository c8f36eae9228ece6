import { Config } from "@pulumi/pulumi";
import { SnapshotStack } from "ramet";

// Any cluster: its CSI driver is installed already, such as rbd.csi.ceph.com.
const driver = new Config().require("driver");
const stack = new SnapshotStack("snapshots", {
  cloud: "generic",
  classes: [{ driver, default: "checkpoint-retain" }],
});

export const classes = stack.classNames;
export const findings = stack.facts.findings;
