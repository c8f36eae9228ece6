import { localNodeLabels } from "../../../src/api/names/system-names.ts";
import { type Finding, refusal } from "../../../src/preflight/finding.ts";
import type { ObservedCluster } from "./observed-cluster.ts";

export type Cloud = "eks" | "gke" | "aks" | "acs" | "generic" | "local";

/** The detected kind of cluster and the evidence. `generic` if there is no evidence. */
export interface DetectedCloud {
  cloud: Cloud;
  evidence: string;
}

/** Detects the cloud from the most reliable evidence: a pure function. */
export function detectCloud({
  server,
  nodes,
  drivers,
}: Pick<ObservedCluster, "server" | "nodes" | "drivers">): DetectedCloud {
  const version = byVersion.find(({ pattern }) => pattern.test(server));
  if (version !== undefined) return { cloud: version.cloud, evidence: `its API server is ${server}` };
  for (const { cloud, fits, evidence } of byNode) {
    const node = nodes.find(fits);
    if (node !== undefined) return { cloud, evidence: `a node has ${evidence}` };
  }
  const driver = drivers.find((name) => byDriver.has(name));
  const cloud = driver === undefined ? undefined : byDriver.get(driver);
  if (cloud !== undefined) return { cloud, evidence: `it has the driver ${driver ?? ""}` };
  return { cloud: "generic", evidence: "there is no evidence of a cloud" };
}

/** A cluster of a cloud may be declared as `generic`, but not as a cluster of another cloud. */
export function cloudFindings(requested: Cloud, observed: DetectedCloud): Finding[] {
  if (requested === observed.cloud || (requested === "generic" && observed.cloud !== "local")) return [];
  const known =
    observed.cloud === "generic"
      ? "shows no evidence of that cloud"
      : `belongs to ${observed.cloud} (${observed.evidence})`;
  const message = `cloud is "${requested}", but the cluster ${known}`;
  const action = `Set cloud to "${observed.cloud}", or set kubeconfig to the right cluster`;
  const level = observed.cloud === "generic" ? "warning" : "error";
  return [{ ...refusal("cloud", "InvalidArgument", message, action), level }];
}

const byVersion: readonly { cloud: Cloud; pattern: RegExp }[] = [
  { cloud: "eks", pattern: /-eks-/ },
  { cloud: "gke", pattern: /-gke\./ },
  { cloud: "acs", pattern: /-aliyun\./ },
];

interface NodeMark {
  cloud: Cloud;
  fits: (node: ObservedCluster["nodes"][number]) => boolean;
  evidence: string;
}

const byNode: readonly NodeMark[] = [
  {
    cloud: "aks",
    fits: ({ labels }) => labels["kubernetes.azure.com/cluster"] !== undefined,
    evidence: "the label kubernetes.azure.com/cluster",
  },
  {
    cloud: "eks",
    fits: ({ labels }) => Object.keys(labels).some((label) => label.startsWith("eks.amazonaws.com/")),
    evidence: "a label of eks.amazonaws.com",
  },
  {
    cloud: "gke",
    fits: ({ labels }) => labels["cloud.google.com/gke-nodepool"] !== undefined,
    evidence: "the label cloud.google.com/gke-nodepool",
  },
  {
    cloud: "acs",
    fits: ({ labels }) => Object.keys(labels).some((label) => label.startsWith("alibabacloud.com/")),
    evidence: "a label of alibabacloud.com",
  },
  {
    cloud: "local",
    fits: ({ labels }) => Object.entries(localNodeLabels).every(([label, value]) => labels[label] === value),
    evidence: "the instance type ramet-local",
  },
];

/** Drivers that exist only in managed clusters. The other drivers of these clouds can be installed anywhere. */
const byDriver: ReadonlyMap<string, Cloud> = new Map([["ebs.csi.eks.amazonaws.com", "eks"]]);
