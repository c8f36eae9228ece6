import { Config } from "@pulumi/pulumi";
import { RametRuntime, SnapshotStack } from "ramet";

const config = new Config();
const project = config.require("project");
const stack = new SnapshotStack("snapshots", {
  cloud: "gke",
  // Images suit snapshots from which many clones are created at the same time.
  classes: [{ driver: "pd.csi.storage.gke.io", pd: { type: "images", labels: { team: "agents" } } }],
  gke: {
    store: { project, location: config.require("location"), bucket: `${project}-ramet-checkpoints` },
  },
});
new RametRuntime("ramet", {
  store: stack.store,
  image: config.require("image"),
  cellImage: config.require("cellImage"),
});

export const classes = stack.classNames;
export const findings = stack.facts.findings;
