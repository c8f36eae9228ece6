import { SnapshotStack } from "ramet";

const stack = new SnapshotStack("snapshots", {
  cloud: "generic",
  groupSnapshots: true,
  classes: [{ driver: "hostpath.csi.k8s.io" }],
});

export const facts = stack.facts;
export const classNames = stack.classNames;
