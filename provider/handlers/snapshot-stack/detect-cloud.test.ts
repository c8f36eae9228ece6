import { expect, it } from "vitest";
import { cloudFindings, detectCloud, type Cloud } from "./detect-cloud.ts";
import { emptyCluster } from "./observed-cluster.ts";

const node = (label: string, value = "x") => ({ nodes: [{ labels: { [label]: value } }] });

it.each([
  ["eks", { server: "v1.33.4-eks-99d6cc0" }],
  ["gke", { server: "v1.33.4-gke.1172000" }],
  ["acs", { server: "v1.33.1-aliyun.1" }],
  ["aks", node("kubernetes.azure.com/cluster")],
  ["local", node("node.kubernetes.io/instance-type", "ramet-local")],
  ["eks", { drivers: ["ebs.csi.eks.amazonaws.com"] }],
  ["generic", { server: "v1.33.4", drivers: ["ebs.csi.aws.com"] }],
])("detects %s", (cloud, observed) => {
  expect(detectCloud({ ...emptyCluster, ...observed })).toMatchObject({ cloud });
});

it.each<[Cloud, Cloud, string[]]>([
  ["eks", "eks", []],
  ["generic", "eks", []],
  ["gke", "eks", ["error"]],
  ["generic", "local", ["error"]],
  ["aks", "generic", ["warning"]],
])("compares the requested cloud %s with a cluster of %s", (requested, cloud, severities) => {
  expect(cloudFindings(requested, { cloud, evidence: "" }).map(({ level }) => level)).toEqual(severities);
});
