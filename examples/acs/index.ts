import { SnapshotStack } from "ramet";

// Alibaba Cloud manages the driver and the controllers. The stack verifies them and declares only the classes.
const stack = new SnapshotStack("snapshots", {
  cloud: "acs",
  classes: [{ driver: "diskplugin.csi.alibabacloud.com", alibabaDisk: { retentionDays: 30 } }],
});

export const classes = stack.classNames;
export const facts = stack.facts;
