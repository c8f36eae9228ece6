import { Config } from "@pulumi/pulumi";
import { SnapshotStack } from "ramet";

const config = new Config();
const stack = new SnapshotStack("snapshots", {
  cloud: "aks",
  // Premium SSD v2: a snapshot can be restored before it has been copied.
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

export const classes = stack.classNames;
export const missing = stack.facts.missing;
