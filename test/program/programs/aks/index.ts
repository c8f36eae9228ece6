import { Config } from "@pulumi/pulumi";
import { RametRuntime, SnapshotStack } from "ramet";

const config = new Config();
const stack = new SnapshotStack("snapshots", {
  cloud: "aks",
  // Premium SSD v2: a snapshot can be restored before it is fully copied.
  classes: [{ driver: "disk.csi.azure.com", azureDisk: { instantAccessMinutes: 60, tags: { team: "agents" } } }],
  aks: {
    store: {
      account: config.require("storageAccount"),
      resourceGroup: config.require("resourceGroup"),
      location: config.require("location"),
      subscriptionId: config.require("subscriptionId"),
      issuerUrl: config.require("issuerUrl"),
    },
  },
});
// The controllers store checkpoints in that account, with the identity that the stack creates for them.
const ramet = new RametRuntime("ramet", {
  image: config.require("image"),
  cellImage: config.require("cellImage"),
  store: stack.store,
});

export const classes = stack.classNames;
export const findings = stack.facts.findings;
export const mode = ramet.mode;
