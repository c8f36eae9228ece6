import { Config } from "@pulumi/pulumi";
import { SnapshotStack } from "ramet";

const config = new Config();
const project = config.require("project");
const location = config.require("location");
const stack = new SnapshotStack("snapshots", {
  cloud: "gke",
  // A snapshot that many clones are made from at once is better an image.
  classes: [{ driver: "pd.csi.storage.gke.io", pd: { type: "images", labels: { team: "agents" } } }],
  gke: {
    store: {
      ...{ project, location, projectNumber: config.require("projectNumber") },
      bucket: `${project}-ramet-checkpoints`,
    },
  },
});

export const classes = stack.classNames;
export const missing = stack.facts.missing;
