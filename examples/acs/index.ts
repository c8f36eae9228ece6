import { SnapshotStack } from "ramet";

// Nothing that Alibaba Cloud manages is installed: it is verified, and the classes are declared.
const stack = new SnapshotStack("snapshots", {
  cloud: "acs",
  classes: [{ driver: "diskplugin.csi.alibabacloud.com", alibabaDisk: { retentionDays: 30 } }],
});

export const classes = stack.classNames;
export const facts = stack.facts;
