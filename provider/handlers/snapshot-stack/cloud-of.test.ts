import { expect, it } from "vitest";
import { cloudFindings, cloudOf, type Cloud } from "./cloud-of.ts";
import { nothingSeen } from "./stack-seen.ts";

const node = (label: string, value = "x") => ({ nodes: [{ labels: { [label]: value } }] });

it.each([
  ["eks", { server: "v1.33.4-eks-99d6cc0" }],
  ["gke", { server: "v1.33.4-gke.1172000" }],
  ["acs", { server: "v1.33.1-aliyun.1" }],
  ["aks", node("kubernetes.azure.com/cluster")],
  ["local", node("node.kubernetes.io/instance-type", "ramet-local")],
  ["eks", { drivers: ["ebs.csi.eks.amazonaws.com"] }],
  ["generic", { server: "v1.33.4", drivers: ["ebs.csi.aws.com"] }],
])("knows %s", (cloud, seen) => {
  expect(cloudOf({ ...nothingSeen, ...seen })).toMatchObject({ cloud });
});

it.each<[Cloud, Cloud, string[]]>([
  ["eks", "eks", []],
  ["generic", "eks", []],
  ["gke", "eks", ["refuse"]],
  ["generic", "local", ["refuse"]],
  ["aks", "generic", ["tell"]],
])("judges cloud %s of a cluster of %s", (wished, cloud, weights) => {
  expect(cloudFindings(wished, { cloud, because: "" }).map(({ weight }) => weight)).toEqual(weights);
});
